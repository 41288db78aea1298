//! Who owns which fields: kept with every write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use coracle_api::codec::json;
use coracle_api::schema::{graph, types};
use coracle_meta::apply::typed::Type;
use coracle_meta::apply::{ApplyError, FieldFilter, FieldManager, FieldSet, OneVersion, ResetFields, Writer};
use coracle_meta::gvk::split_api_version;
use coracle_meta::schema::NodeId;
use coracle_meta::time::Time;
use serde_json::Value;

use super::Write;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::kind::StatusMetadata;

/// Whose writes are noted, to what, and in which form.
pub(super) struct Ownership<'a> {
    api_version: Cow<'a, str>,
    kind: &'a str,
    subresource: &'a str,
    manager: &'a str,
    reset_fields: ResetFields,
}

impl<'a> Ownership<'a> {
    /// Of an object, or of what is sent to one of its parts.
    pub(super) fn of(write: &'a Write<'_>) -> Self {
        let declaration = write.declaration();
        let part = declaration.subresource(write.subresource);
        let (api_version, kind) = match part.filter(|part| part.kind != declaration.kind) {
            Some(part) => (part.api_version(write.api_version), &part.kind),
            None => (write.api_version.into(), &declaration.kind),
        };
        let reset_fields = reset_fields(write);
        Self { api_version, kind, subresource: write.subresource, manager: write.manager, reset_fields }
    }

    /// Takes note that `new` is written over `live`.
    pub(super) fn track(&self, live: Option<&Value>, new: Value, now: Time) -> Value {
        // A kind without schema keeps no such notes.
        let Some(node) = self.node() else { return new };
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        self.with_manager(node, |manager| manager.update_no_errors(live, new, &writer))
    }

    /// Merges an applied configuration into `live`.
    pub(super) fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        force: bool,
        now: Time,
    ) -> Result<Value> {
        let Some(node) = self.node() else {
            return Err(Error::BadRequest("this kind cannot be applied".into()));
        };
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        match self.with_manager(node, |manager| manager.apply(live, config, &writer, force)) {
            Ok(applied) => self.conform(applied.object),
            Err(ApplyError::Conflicts(conflicts)) => Err(Error::ApplyConflict(conflicts)),
            Err(error @ ApplyError::NotTyped { .. }) => Err(Error::Unspecific(error.to_string())),
            Err(other) => Err(Error::BadRequest(other.to_string())),
        }
    }

    /// Brings what was merged into the form of its type.
    fn conform(&self, object: Value) -> Result<Value> {
        let (group, version) = self.group_version();
        let Some(id) = types().kind(group, version, self.kind) else { return Ok(object) };
        let conformed = json::conform(&object, id);
        conformed.map(|decoded| decoded.object).map_err(|error| Error::BadRequest(error.to_string()))
    }

    fn group_version(&self) -> (&str, &str) {
        split_api_version(&self.api_version)
    }

    /// The type of what is written, if it has one.
    fn node(&self) -> Option<NodeId> {
        let (group, version) = self.group_version();
        graph().kind(group, version, self.kind)
    }

    fn with_manager<T>(&self, node: NodeId, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let graph = graph();
        let versions = OneVersion { schema: graph.schema(), node, api_version: &self.api_version };
        let initial = initial(node);
        work(&FieldManager {
            versions: &versions,
            api_version: &self.api_version,
            kind: self.kind,
            subresource: self.subresource,
            reset_fields: &self.reset_fields,
            initial: Some(&initial),
        })
    }
}

impl Cluster {
    /// Notes who owns what of an object that is answered and not kept.
    pub fn note_ownership(&self, write: &Write<'_>, object: Value) -> Value {
        Ownership::of(write).track(None, object, self.now())
    }
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
    let declaration = write.declaration();
    let usual = || {
        let mut fields: Vec<&[&str]> = Vec::new();
        let kept: Vec<[&str; 2]>;
        match write.subresource {
            "" if declaration.has_status() => fields.push(&["status"]),
            "status" => {
                fields.push(&["spec"]);
                match declaration.status_metadata {
                    StatusMetadata::Kept => fields.push(&["metadata"]),
                    other => {
                        kept = other.kept_fields().iter().map(|field| ["metadata", *field]).collect();
                        fields.extend(kept.iter().map(<[&str; 2]>::as_slice));
                    }
                }
            }
            _ => return None,
        }
        Some(FieldFilter::Except(FieldSet::of_fields(&fields)))
    };
    match write.kind.untouched(write.subresource).or_else(usual) {
        Some(filter) => ResetFields::default().with(write.api_version, filter),
        None => ResetFields::default(),
    }
}
