//! Response bodies: compact JSON ends with a newline, JSON for people is indented, large bodies are compressed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use coracle_api::codec::{protobuf, yaml};
use coracle_api::schema::types;
use coracle_meta::go_json;
use coracle_meta::gvk::split_api_version;
use coracle_meta::status::Status;
use http::{HeaderValue, Response, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::Value;

use super::accept::{Form, ResponseFormat};
use super::gzip::Gzip;
use super::indent::indent;
use crate::body::{ResponseBody, full};

/// Responses above this size are compressed if the client accepts gzip, as by kube-apiserver
/// (`defaultGzipThresholdBytes` of its `responsewriters`).
pub(super) const GZIP_ABOVE_BYTES: usize = 128 * 1024;

/// Responds with JSON: indented if the format requires it, or else with a final newline, which `bytes` may lack.
pub(super) fn json(format: ResponseFormat, bytes: impl Into<Bytes>) -> Response<ResponseBody> {
    let bytes = bytes.into();
    if format.pretty {
        return bytes_of(format, indent(&bytes).into(), Form::Json);
    }
    if bytes.last() == Some(&b'\n') {
        return bytes_of(format, bytes, Form::Json);
    }
    let mut ended = Vec::with_capacity(bytes.len() + 1);
    ended.extend_from_slice(&bytes);
    ended.push(b'\n');
    bytes_of(format, ended.into(), Form::Json)
}

/// Responds with a body of known size.
pub(super) fn bytes_of(format: ResponseFormat, bytes: Bytes, form: Form) -> Response<ResponseBody> {
    if format.gzip && bytes.len() > GZIP_ABOVE_BYTES {
        return compressed(full(bytes), form);
    }
    respond(bytes, form.media_type())
}

/// Responds with a body that is compressed while it is sent.
pub(super) fn compressed(body: ResponseBody, form: Form) -> Response<ResponseBody> {
    let body = GzipBody { body: Some(body), gzip: Box::default() };
    let mut response = respond(Bytes::new(), form.media_type()).map(|_| body.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// Responds with a `Status` of success or failure. Without a format, for a client that accepts no served one, the
/// response is indented JSON, as from kube-apiserver.
pub(crate) fn status(format: Option<ResponseFormat>, status: &Status) -> Response<ResponseBody> {
    let Some(format) = format else {
        return respond(indent(&to_json(status)), Form::Json.media_type());
    };
    match format.form {
        Form::Json => json(format, to_json(status)),
        form => bytes_of(format, written(form, &to_value(status), "", "v1", "Status").into(), form),
    }
}

/// Encodes an object tree in a form. Kinds without a protobuf type are encoded as JSON instead.
pub(super) fn written(form: Form, object: &Value, group: &str, version: &str, kind: &str) -> Vec<u8> {
    match form {
        Form::Json => to_json(object),
        Form::Yaml => yaml::encode(object).into(),
        Form::Protobuf => match types().kind(group, version, kind) {
            Some(id) => protobuf::encode(object, id),
            None => to_json(object),
        },
    }
}

/// Responds with an object that contains its `kind`, such as a discovery document. In JSON, its fields have the order
/// of the Rust type.
pub(crate) fn document(format: ResponseFormat, object: &impl serde::Serialize) -> Response<ResponseBody> {
    if format.form == Form::Json {
        return json(format, to_json(object));
    }
    let value = &to_value(object);
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    // Discovery documents of the core group have no `apiVersion`.
    let (group, version) = match text("apiVersion") {
        "" => ("", "v1"),
        api_version => split_api_version(api_version),
    };
    let kind = text("kind");
    match format.form {
        Form::Protobuf if types().kind(group, version, kind).is_some() => {
            bytes_of(format, written(Form::Protobuf, value, group, version, kind).into(), Form::Protobuf)
        }
        Form::Yaml => bytes_of(format, yaml::encode(value).into(), Form::Yaml),
        _ => json(format, to_json(value)),
    }
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    go_json::to_vec(value).expect("what is built here has a JSON")
}

pub(crate) fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("what is built here has a JSON")
}

pub(crate) fn respond(bytes: impl Into<Bytes>, content_type: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(full(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A body that is compressed while it is sent.
struct GzipBody {
    /// `None` after its end.
    body: Option<ResponseBody>,
    gzip: Box<Gzip>,
}

impl Body for GzipBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        while let Some(body) = &mut this.body {
            let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
            let data = frame.and_then(|frame| frame.unwrap_or_else(|never| match never {}).into_data().ok());
            let compressed = match data {
                Some(data) => this.gzip.compress(&data),
                None => {
                    this.body = None;
                    this.gzip.finish()
                }
            };
            if !compressed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(compressed.into()))));
            }
        }
        Poll::Ready(None)
    }
}
