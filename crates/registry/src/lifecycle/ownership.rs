//! Who owns which fields: kept with every write.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use coracle_api::codec::json;
use coracle_api::schema::{graph, types};
use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{ApplyError, FieldFilter, FieldManager, FieldSet, OneVersion, ResetFields, Writer};
use coracle_meta::schema::NodeId;
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
        Some(Ok(applied)) => conform(write, applied.object),
        Some(Err(ApplyError::Conflicts(conflicts))) => Err(Error::ApplyConflict(conflicts)),
        Some(Err(other)) => Err(Error::BadRequest(other.to_string())),
        None => Err(Error::BadRequest("this kind cannot be applied".into())),
    }
}

/// A configuration says what its applier wants and nothing else; what it was merged into is
/// brought into the form in which objects of the kind are written.
fn conform(write: &Write<'_>, object: Value) -> Result<Value> {
    let (group, version) = write.group_version();
    let Some(id) = types().kind(group, version, &write.declaration().kind) else { return Ok(object) };
    json::conform(&object, id)
        .map(|conformed| conformed.object)
        .map_err(|error| Error::BadRequest(error.to_string()))
}

fn writer<'a>(write: &Write<'a>, now: &'a str) -> Writer<'a> {
    Writer { manager: write.manager, now }
}

fn with_manager<T>(write: &Write<'_>, work: impl FnOnce(&FieldManager<'_>) -> T) -> Option<T> {
    let declaration = write.declaration();
    let (group, version) = write.group_version();
    let graph = graph();
    let node = graph.kind(group, version, &declaration.kind)?;
    let versions = OneVersion { schema: graph.schema(), node, api_version: write.api_version };
    let reset_fields = reset_fields(write);
    let initial = initial(node);
    Some(work(&FieldManager {
        versions: &versions,
        api_version: write.api_version,
        kind: &declaration.kind,
        subresource: write.subresource,
        reset_fields: &reset_fields,
        initial: Some(&initial),
    }))
}

/// What an object of a type has before anybody has written anything. The same for all objects,
/// so it is made once; there are as many as built-in kinds.
fn initial(node: NodeId) -> Arc<Value> {
    static KNOWN: RwLock<BTreeMap<NodeId, Arc<Value>>> = RwLock::new(BTreeMap::new());
    if let Some(initial) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&node) {
        return initial.clone();
    }
    let made = Arc::new(Type::new(graph().schema(), node).initial());
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).entry(node).or_insert(made).clone()
}

/// What the write does not touch whatever it says: nobody comes to own that.
fn reset_fields(write: &Write<'_>) -> ResetFields {
    let field = match write.subresource {
        "" if write.declaration().has_status() => "status",
        "status" => "spec",
        _ => return ResetFields::default(),
    };
    let filter = FieldFilter::Except(FieldSet::of_fields(&[&[field]]));
    ResetFields::default().with(write.api_version, filter)
}
