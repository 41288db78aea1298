//! Migration from client-side to server-side apply.
//!
//! `kubectl apply` without `--server-side` records the configuration in an annotation. When the
//! user switches to server-side apply, fields that the annotation contains and that the live object
//! still has unchanged do not conflict. As long as the annotation exists, server-side apply keeps
//! it up to date, so that the user can switch back.

use serde_json::{Map, Value};

use super::conflict::Conflicts;
use super::field_set::FieldSet;
use super::path_element::push_json;
use super::typed::{Strictness, Type};
use crate::go_json;

/// The annotation in which `kubectl apply` records the last applied configuration.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager name to which this migration applies. A client that does not want it uses another
/// name.
pub(super) const KUBECTL: &str = "kubectl";

/// Maximum size of all annotations of an object together.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// Returns the conflicts about fields that are not in the annotation.
pub(super) fn remaining(
    conflicts: Conflicts,
    object_type: Type<'_>,
    api_version: &str,
    live: &Value,
) -> Conflicts {
    let Some(allowed) = applied_before(object_type, api_version, live) else { return conflicts };
    conflicts.without(&allowed)
}

/// Returns the fields that were applied client-side and have not changed since.
fn applied_before(object_type: Type<'_>, api_version: &str, live: &Value) -> Option<FieldSet> {
    let applied: Value = go_json::from_text(annotation(live)?).ok()?;
    if applied.get("apiVersion")?.as_str()? != api_version {
        return None;
    }
    for object in [&applied, live] {
        object_type.validate(object, Strictness::Applied).ok()?;
    }
    let mut fields = object_type.to_field_set(&applied);
    let since = object_type.compare(&applied, live);
    fields.remove(&since.modified);
    fields.remove(&since.added);
    fields.remove(&since.removed);
    Some(fields)
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(LAST_APPLIED_ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Updates the annotation, if the object has one, to the applied configuration.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let applied = without_annotation(config);
    let Some(Value::Object(annotations)) =
        object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    else {
        return;
    };
    annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), Value::String(applied));
    if size(annotations) > MAX_ANNOTATIONS_BYTES {
        annotations.remove(LAST_APPLIED_ANNOTATION);
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}

/// Encodes a configuration as kube-apiserver does: with HTML escapes and a final newline.
fn without_annotation(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) =
        config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    {
        annotations.remove(LAST_APPLIED_ANNOTATION);
    }
    let mut text = String::new();
    push_json(&mut text, &config);
    text.push('\n');
    text
}
