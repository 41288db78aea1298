//! Answers of one object, in every form.

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

/// What an answer is about.
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

    /// How the objects name their type.
    pub(super) fn type_meta(&self) -> TypeMeta {
        TypeMeta { api_version: self.api_version(), kind: self.kind.declaration().kind.clone().into_owned() }
    }
}

/// One object, whose bytes go out as they are where that is wanted.
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

/// An object in the shape and the form that is wanted, and which form it is: kinds without a type
/// of protobuf are told in JSON, which clients that prefer protobuf always take, too.
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

/// A stored object in the version that is asked for, which mostly is the stored one.
pub(super) fn served(kind: &dyn Kind, version: &str, object: &Object) -> Result<Bytes, Refusal> {
    if is_served_as_stored(kind, version, &object.json, object.revision) {
        return Ok(object.json.clone());
    }
    let seen = seen(kind, object)?;
    let is_converted = kind.declaration().is_converted(version);
    Ok(encode::json(&if is_converted { kind.convert_out(version, seen) } else { seen }))
}

/// Whether stored bytes are what is told of an object.
pub(super) fn is_served_as_stored(kind: &dyn Kind, version: &str, json: &[u8], written_at: Revision) -> bool {
    kind.reads_as_stored(json, written_at) && !kind.declaration().is_converted(version)
}

/// What is seen of a stored object.
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

/// The JSON of an object's metadata alone, without a parser where that can be.
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

/// What upstream's messages call a type, such as `*core.ConfigMap`.
pub(super) fn go_type(kind: &dyn Kind) -> String {
    let declaration = kind.declaration();
    let group = declaration.stored_as.as_ref().map_or(&declaration.group, |stored| &stored.group);
    let package = group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
    format!("*{package}.{}", declaration.kind)
}

/// The same for a list of them.
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
