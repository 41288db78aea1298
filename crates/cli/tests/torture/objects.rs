//! Converts the writers' objects to JSON and back. Pure.

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::model::{Content, Event, EventType, Kind, ObjectId, Objects, Observation, Revision, Version};

/// The namespace of all objects. Every cluster has it.
const NAMESPACE: &str = "default";

/// Name prefix of the writers' objects; others belong to controllers.
const PREFIX: &str = "torture-";

/// Name prefix of objects with several writers.
const SHARED_PREFIX: &str = "torture-shared-";

/// Maximum filler, large enough that log records sometimes span several pages.
const MAX_FILLER_BYTES: u64 = 12_000;

/// An object with one writer.
pub(crate) fn owned(kind: Kind, name: &str) -> ObjectId {
    ObjectId { kind, name: format!("{PREFIX}{name}"), is_shared: false }
}

/// An object with several writers.
pub(crate) fn shared(kind: Kind, name: &str) -> ObjectId {
    ObjectId { kind, name: format!("{SHARED_PREFIX}{name}"), is_shared: true }
}

/// Collection path of a kind, in the namespace or in all namespaces.
pub(crate) fn collection(kind: Kind, is_namespaced: bool) -> String {
    let plural = match kind {
        Kind::ConfigMap => "configmaps",
        Kind::Secret => "secrets",
    };
    if is_namespaced {
        format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
    } else {
        format!("/api/v1/{plural}")
    }
}

pub(crate) fn path(object: &ObjectId) -> String {
    format!("{}/{}", collection(object.kind, true), object.name)
}

/// The body of a create or replace.
pub(crate) fn body(object: &ObjectId, content: &Content, expected: Option<Revision>) -> Value {
    let mut metadata = json!({"name": object.name, "namespace": NAMESPACE});
    if let Some(revision) = expected {
        metadata["resourceVersion"] = revision.to_string().into();
    }
    let data = json!({
        "stamp": encoded(object.kind, &content.stamp),
        "filler": encoded(object.kind, &filler(&content.base)),
    });
    json!({"apiVersion": "v1", "kind": object.kind.name(), "metadata": metadata, "data": data})
}

/// The body of a merge patch.
pub(crate) fn patch_body(object: &ObjectId, stamp: &str) -> Value {
    json!({"data": {"stamp": encoded(object.kind, stamp)}})
}

fn encoded(kind: Kind, text: &str) -> String {
    match kind {
        Kind::ConfigMap => text.to_owned(),
        Kind::Secret => STANDARD.encode(text),
    }
}

fn decoded(kind: Kind, data: &Map<String, Value>, key: &str) -> Result<String> {
    let text = data.get(key).and_then(Value::as_str).with_context(|| format!("no {key}"))?;
    match kind {
        Kind::ConfigMap => Ok(text.to_owned()),
        Kind::Secret => Ok(String::from_utf8(STANDARD.decode(text)?)?),
    }
}

/// The stamp, padded to a pseudo-random length derived from it, usually short.
fn filler(base: &str) -> String {
    // FNV-1a, because the standard hasher may change with the toolchain.
    let hash = base.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let scale = 1 + (hash >> 32) % 64;
    let bytes = usize::try_from(hash % (MAX_FILLER_BYTES / scale)).unwrap_or_default();
    format!("{base}:{}", "x".repeat(bytes))
}

/// Parses an object; none if it is not a writer's.
pub(crate) fn parse(kind: Kind, body: &Value) -> Result<Option<(ObjectId, Version)>> {
    let metadata = &body["metadata"];
    let name = metadata["name"].as_str().context("an object without a name")?;
    if !name.starts_with(PREFIX) || metadata["namespace"] != NAMESPACE {
        return Ok(None);
    }
    let object = ObjectId { kind, name: name.to_owned(), is_shared: name.starts_with(SHARED_PREFIX) };
    let data = body["data"].as_object().with_context(|| format!("{object} without data"))?;
    let content = content(kind, data).with_context(|| format!("{object} with content of no request"))?;
    Ok(Some((object, Version { revision: revision(body)?, content })))
}

fn content(kind: Kind, data: &Map<String, Value>) -> Result<Content> {
    let (stamp, found) = (decoded(kind, data, "stamp")?, decoded(kind, data, "filler")?);
    let base = found.split(':').next().unwrap_or_default().to_owned();
    ensure!(found == filler(&base), "the filler of {base} is cut or mixed");
    Ok(Content { stamp, base })
}

pub(crate) fn revision(body: &Value) -> Result<Revision> {
    let text = body["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    text.parse().with_context(|| format!("resourceVersion {text}"))
}

/// The revision of a list, and the objects of the writers in it.
pub(crate) fn parse_list(kind: Kind, body: &Value) -> Result<(Revision, Objects)> {
    let items = body["items"].as_array().context("a list without items")?;
    let mut objects = Objects::new();
    for item in items {
        objects.extend(parse(kind, item)?);
    }
    Ok((revision(body)?, objects))
}

/// Parses a line of a watch; none for 410 Gone.
pub(crate) fn parse_watch_line(kind: Kind, line: &[u8]) -> Result<Option<Observation>> {
    let event: Value = serde_json::from_slice(line).context("a watch event")?;
    let object = &event["object"];
    let event_type = match event["type"].as_str() {
        Some("ADDED") => EventType::Added,
        Some("MODIFIED") => EventType::Modified,
        Some("DELETED") => EventType::Deleted,
        Some("BOOKMARK") => return Ok(Some(Observation::Bookmark(revision(object)?))),
        Some("ERROR") if object["code"] == 410 => return Ok(None),
        _ => bail!("a watch event of an unknown type: {event}"),
    };
    Ok(Some(match parse(kind, object)? {
        Some((object, version)) => Observation::Event(Event { event_type, object, version }),
        None => Observation::Foreign(revision(object)?),
    }))
}
