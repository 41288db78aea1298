//! Encoding of single objects, in every format.

use bytes::Bytes;
use coracle_api::codec::protobuf::{self, TextEncoder};
use coracle_api::codec::{TypeMeta, yaml};
use coracle_api::schema::{TypeId, types};
use coracle_meta::go_json;
use coracle_meta::status::{Reason, Status};
use coracle_registry::lifecycle::Object;
use coracle_registry::{Kind, KindRef, Revision, encode};
use http::Response;
use serde_json::{Value, json};

use super::accept::{Form, ResponseFormat, Shape};
use super::messages;
use super::respond::{self, to_json};
use super::table::{self, Rows};
use crate::body::ResponseBody;
use crate::discovery::group_version;
use crate::status::Refusal;

/// The kind, version and format in which a response encodes objects.
pub(crate) struct Encoding<'a> {
    pub(crate) kind: &'a KindRef,
    pub(crate) version: &'a str,
    pub(crate) format: ResponseFormat,
    /// Seconds since the epoch, for ages in tables.
    pub(crate) now: i64,
}

impl Encoding<'_> {
    pub(super) fn api_version(&self) -> String {
        group_version(&self.kind.declaration().group, self.version)
    }

    /// `apiVersion` and `kind` of the objects.
    pub(super) fn type_meta(&self) -> TypeMeta {
        TypeMeta { api_version: self.api_version(), kind: self.kind.declaration().kind.clone().into_owned() }
    }
}

/// Responds with one object. If the format allows it, its stored bytes are sent unchanged.
pub(crate) fn object(encoding: &Encoding<'_>, object: &Object) -> Result<Response<ResponseBody>, Refusal> {
    let format = encoding.format;
    if format.shape == Shape::MetadataList {
        let message = format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
            go_type(&**encoding.kind)
        );
        return Err(Status::failure(Reason::NotAcceptable, message).into());
    }
    let (form, bytes) = shown(encoding, object, true)?;
    Ok(match form {
        Form::Json => respond::json(format, bytes),
        form => respond::bytes_of(format, bytes, form),
    })
}

/// Encodes an object in the negotiated shape and form. Returns it with the form: kinds without a protobuf type are
/// encoded as JSON, which clients that prefer protobuf always accept as well.
pub(super) fn shown(
    encoding: &Encoding<'_>,
    object: &Object,
    tell_columns: bool,
) -> Result<(Form, Bytes), Refusal> {
    let Encoding { kind, format, now, .. } = encoding;
    match format.shape {
        Shape::Object => {
            let id = || Some((kind.type_id(encoding.version)?, encoding.type_meta()));
            in_form(format.form, served(&***kind, encoding.version, object)?, id)
        }
        Shape::Table => {
            let table = table::of_one(&Rows::of(encoding), *now, object, tell_columns)?;
            Ok(match format.form {
                Form::Yaml => (Form::Yaml, yaml::encode(&tree(&table)?).into()),
                _ => (Form::Json, table.into()),
            })
        }
        Shape::Metadata | Shape::MetadataList => {
            in_form(format.form, metadata_json(&***kind, &object.json, format.meta_version)?.into(), || {
                let kind = "PartialObjectMetadata".to_owned();
                let type_meta = TypeMeta { api_version: format.meta_version.to_owned(), kind };
                Some((types().kind("meta.k8s.io", "v1", "PartialObjectMetadata")?, type_meta))
            })
        }
    }
}

/// Returns a stored object in the requested version, which usually is the storage version.
pub(super) fn served(kind: &dyn Kind, version: &str, object: &Object) -> Result<Bytes, Refusal> {
    if is_served_as_stored(kind, version, &object.json, object.revision) {
        return Ok(object.json.clone());
    }
    let seen = seen(kind, object)?;
    let is_converted = kind.declaration().is_converted(version);
    Ok(encode::json(&if is_converted { kind.convert_out(version, seen) } else { seen }))
}

/// Whether the stored bytes of an object can be served unchanged.
pub(super) fn is_served_as_stored(kind: &dyn Kind, version: &str, json: &[u8], written_at: Revision) -> bool {
    kind.reads_as_stored(json, written_at) && !kind.declaration().is_converted(version)
}

/// Decodes a stored object as clients see it, in the storage version.
pub(crate) fn seen(kind: &dyn Kind, object: &Object) -> Result<Value, Refusal> {
    let stored = tree(&object.json)?;
    let as_stored = kind.reads_as_stored(&object.json, object.revision);
    Ok(if as_stored { stored } else { kind.read_stored(stored) })
}

fn in_form(
    form: Form,
    object: Bytes,
    type_of: impl FnOnce() -> Option<(TypeId, TypeMeta)>,
) -> Result<(Form, Bytes), Refusal> {
    Ok(match form {
        Form::Json => (Form::Json, object),
        Form::Yaml => (Form::Yaml, yaml::encode(&tree(&object)?).into()),
        Form::Protobuf => match type_of() {
            Some((id, type_meta)) => {
                let message = messages::encode(&mut TextEncoder::default(), &object, id)?;
                (Form::Protobuf, protobuf::envelop(&type_meta, &message).into())
            }
            None => (Form::Json, object),
        },
    })
}

/// Encodes the metadata of an object as `PartialObjectMetadata` JSON, if possible without parsing the object.
pub(super) fn metadata_json(kind: &dyn Kind, object: &[u8], meta_version: &str) -> Result<Vec<u8>, Refusal> {
    let head =
        format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{meta_version}\",\"metadata\":");
    let mut out = head.into_bytes();
    match (kind.declaration().internal_annotation, encode::metadata(object)) {
        (None, Some(metadata)) => out.extend_from_slice(metadata),
        (annotation, _) => {
            let mut metadata = tree(object)?.get("metadata").cloned().unwrap_or_else(|| json!({}));
            if let Some(annotation) = annotation {
                remove_annotation(&mut metadata, annotation);
            }
            out.extend(to_json(&metadata));
        }
    }
    out.push(b'}');
    Ok(out)
}

fn remove_annotation(metadata: &mut Value, annotation: &str) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(annotation);
    if annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
}

/// The Go type that kube-apiserver's messages name, such as `*core.ConfigMap`.
pub(super) fn go_type(kind: &dyn Kind) -> String {
    let declaration = kind.declaration();
    let group = declaration.stored_as.as_ref().map_or(&declaration.group, |stored| &stored.group);
    let package = group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
    format!("*{package}.{}", declaration.kind)
}

/// The Go type of a list of the kind in kube-apiserver's messages.
pub(super) fn go_list_type(kind: &dyn Kind) -> String {
    let declaration = kind.declaration();
    match &*declaration.group {
        _ if declaration.is_custom => "*unstructured.UnstructuredList".to_owned(),
        "events.k8s.io" => "*core.EventList".to_owned(),
        _ => format!("{}List", go_type(kind)),
    }
}

pub(crate) fn tree(bytes: &[u8]) -> Result<Value, Refusal> {
    go_json::from_stored(bytes).map_err(|error| {
        let reason = error.to_string();
        coracle_registry::Error::Corrupt { key: String::new(), reason }.into()
    })
}
