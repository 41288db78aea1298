//! Who owns which fields: kept with every write.

use coracle_api::schema::graph;
use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{ApplyError, FieldManager, OneVersion, ResetFields, Writer};
use coracle_meta::time::Time;
use serde_json::Value;

use super::Write;
use crate::error::{Error, Result};

/// Takes note that `new` is written over `live`.
pub(super) fn track(write: &Write<'_>, live: Option<&Value>, new: Value, now: Time) -> Value {
    let now = now.to_string();
    with_manager(write, |manager| manager.update_no_errors(live, new.clone(), &writer(write, &now)))
        // A kind without schema keeps no such notes.
        .unwrap_or(new)
}

/// Merges an applied configuration into `live`.
pub(super) fn apply(
    write: &Write<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
    now: Time,
) -> Result<Value> {
    let now = now.to_string();
    let applied = with_manager(write, |manager| manager.apply(live, config, &writer(write, &now), force));
    match applied {
        Some(Ok(applied)) => Ok(applied.object),
        Some(Err(ApplyError::Conflicts(conflicts))) => Err(Error::ApplyConflict(conflicts)),
        Some(Err(other)) => Err(Error::BadRequest(other.to_string())),
        None => Err(Error::BadRequest("this kind cannot be applied".into())),
    }
}

fn writer<'a>(write: &Write<'a>, now: &'a str) -> Writer<'a> {
    Writer { manager: write.manager, now }
}

fn with_manager<T>(write: &Write<'_>, work: impl FnOnce(&FieldManager<'_>) -> T) -> Option<T> {
    let declaration = write.declaration();
    let version = write.api_version.rsplit('/').next().unwrap_or_default();
    let graph = graph();
    let node = graph.kind(&declaration.group, version, &declaration.kind)?;
    let versions = OneVersion { schema: graph.schema(), node, api_version: write.api_version };
    let initial = Type::new(graph.schema(), node).initial();
    Some(work(&FieldManager {
        versions: &versions,
        api_version: write.api_version,
        kind: &declaration.kind,
        subresource: write.subresource,
        reset_fields: ResetFields::NONE,
        initial: Some(&initial),
    }))
}
