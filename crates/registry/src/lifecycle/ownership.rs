//! Who owns which fields: kept with every write.

use coracle_meta::apply::{ApplyError, FieldFilter, FieldManager, FieldSet, ResetFields, Writer};
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use serde_json::Value;

use super::Write;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::form::ObjectForm;
use crate::kind::StatusMetadata;

/// Whose writes are noted, to what, and in which form.
pub(super) struct Ownership<'a> {
    form: ObjectForm<'a>,
    subresource: &'a str,
    manager: &'a str,
    reset_fields: ResetFields,
}

impl<'a> Ownership<'a> {
    /// Of an object, or of what is sent to one of its parts.
    pub(super) fn of(write: &Write<'a>) -> Self {
        let reset_fields = reset_fields(write);
        Self { form: write.form(), subresource: write.subresource, manager: write.manager, reset_fields }
    }

    /// Takes note that `new` is written over `live`.
    pub(super) fn track(&self, live: Option<&Value>, new: Value, now: Time) -> Value {
        // A kind without schema keeps no such notes.
        if self.form.schema().is_none() {
            return new;
        }
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        let mut tracked = self.with_manager(|manager| manager.update_no_errors(live, new, &writer));
        self.form.settle(&mut tracked);
        tracked
    }

    /// Merges an applied configuration into `live`.
    pub(super) fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        force: bool,
        now: Time,
    ) -> Result<Value> {
        if self.form.schema().is_none() {
            return Err(Error::BadRequest("this kind cannot be applied".into()));
        }
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        match self.with_manager(|manager| manager.apply(live, config, &writer, force)) {
            Ok(applied) => self.conform(applied.object, config),
            Err(ApplyError::Conflicts(conflicts)) => Err(Error::ApplyConflict(conflicts)),
            Err(error @ ApplyError::NotTyped { .. }) => Err(Error::Unspecific(error.to_string())),
            Err(other) => Err(Error::BadRequest(other.to_string())),
        }
    }

    /// Brings what was merged into the form of its type.
    fn conform(&self, object: Value, config: &Value) -> Result<Value> {
        let converted = self.form.convert(object).map(|decoded| decoded.object);
        let settled = converted.map(|mut object| {
            self.form.settle(&mut object);
            object
        });
        settled.map_err(|error| {
            let named = Meta::of(config);
            let (namespace, name) = (named.namespace(), named.name());
            let kind = format!("{}/{}, Kind={}", self.form.group(), self.form.version(), self.form.kind());
            Error::Unspecific(format!(
                "failed to convert new object ({namespace}/{name}; {kind}) to proper version: \
                 unable to convert unstructured object to {kind}: {error}"
            ))
        })
    }

    fn with_manager<T>(&self, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let (api_version, initial) = (self.form.api_version(), self.form.initial());
        work(&FieldManager {
            versions: &self.form,
            api_version: &api_version,
            kind: self.form.kind(),
            subresource: self.subresource,
            reset_fields: &self.reset_fields,
            initial: initial.as_deref(),
        })
    }
}

impl Cluster {
    /// Notes who owns what of an object that is answered and not kept.
    pub fn note_ownership(&self, write: &Write<'_>, object: Value) -> Value {
        Ownership::of(write).track(None, object, self.now())
    }
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
