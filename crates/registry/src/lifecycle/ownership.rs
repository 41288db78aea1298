//! Who owns which fields: kept with every write.

use std::borrow::Cow;

use coracle_meta::apply::{ApplyError, FieldFilter, FieldManager, FieldSet, ResetFields, Writer};
use coracle_meta::object::{Meta, MetaMut};
use coracle_meta::time::Time;
use serde_json::Value;

use super::Write;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::form::ObjectForm;
use crate::kind::StatusMetadata;

/// Whose writes are noted, to what, and in which form.
pub(super) struct Ownership<'a> {
    /// In which the client writes: what it owns is told by the names that fields have there.
    served: ObjectForm<'a>,
    /// In which objects are here.
    stored: ObjectForm<'a>,
    /// The group and version in which the client writes.
    api_version: Cow<'a, str>,
    subresource: &'a str,
    manager: &'a str,
    reset_fields: ResetFields,
}

impl<'a> Ownership<'a> {
    /// Of an object, or of what is sent to one of its parts.
    pub(super) fn of(write: &Write<'a>) -> Self {
        let served = ObjectForm::new(write.kind, write.served_version, write.subresource);
        let api_version = served.api_version();
        Self {
            served,
            stored: write.form(),
            reset_fields: reset_fields(write, &api_version),
            api_version,
            subresource: write.subresource,
            manager: write.manager,
        }
    }

    /// Takes note that `new` is written over `live`.
    pub(super) fn track(&self, live: Option<&Value>, new: Value, now: Time) -> Value {
        // A kind without schema keeps no such notes.
        if self.served.schema().is_none() {
            return new;
        }
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        let live = live.map(|live| self.served.of_stored(Cow::Borrowed(live)));
        let note =
            |new: Value| self.with_manager(|manager| manager.update_no_errors(live.as_deref(), new, &writer));
        let mut tracked = if self.served.is_converted() {
            let told = note(self.served.of_stored(Cow::Borrowed(&new)).into_owned());
            with_owners_of(new, &told)
        } else {
            note(new)
        };
        self.stored.settle(&mut tracked);
        tracked
    }

    /// Merges an applied configuration, which is in the form in which the client writes, into `live`.
    pub(super) fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        force: bool,
        now: Time,
    ) -> Result<Value> {
        if self.served.schema().is_none() {
            return Err(Error::BadRequest("this kind cannot be applied".into()));
        }
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        let before = live.map(|live| self.served.of_stored(Cow::Borrowed(live)));
        match self.with_manager(|manager| manager.apply(before.as_deref(), config, &writer, force)) {
            Ok(applied) => match (live, before) {
                (Some(live), Some(Cow::Owned(before))) => {
                    self.converted(live, before, applied.object, config)
                }
                _ => self.conform(applied.object, config),
            },
            Err(ApplyError::Conflicts(conflicts)) => Err(Error::ApplyConflict(conflicts)),
            Err(error @ ApplyError::NotTyped { .. }) => Err(Error::Unspecific(error.to_string())),
            Err(other) => Err(Error::BadRequest(other.to_string())),
        }
    }

    /// What was merged into `before`, which is `live` in another form. If that changed nothing, `live` is as it was,
    /// which it might not be after a conversion there and back.
    fn converted(&self, live: &Value, before: Value, merged: Value, config: &Value) -> Result<Value> {
        if with_owners_of(before, &merged) == merged {
            return Ok(with_owners_of(live.clone(), &merged));
        }
        self.conform(merged, config)
    }

    /// Brings what was merged into the form of its type, and into that in which objects are here.
    fn conform(&self, object: Value, config: &Value) -> Result<Value> {
        let converted = self.served.convert(object).map(|decoded| self.served.to_stored(decoded.object));
        let settled = converted.map(|mut object| {
            self.stored.settle(&mut object);
            object
        });
        settled.map_err(|error| {
            let named = Meta::of(config);
            let (namespace, name) = (named.namespace(), named.name());
            let form = &self.served;
            let kind = format!("{}/{}, Kind={}", form.group(), form.version(), form.kind());
            Error::Unspecific(format!(
                "failed to convert new object ({namespace}/{name}; {kind}) to proper version: \
                 unable to convert unstructured object to {kind}: {error}"
            ))
        })
    }

    fn with_manager<T>(&self, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let initial = self.served.initial();
        work(&FieldManager {
            versions: &self.served,
            api_version: &self.api_version,
            kind: self.served.kind(),
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

/// What the write, which is in this version, does not touch whatever it says: nobody comes to own that, nor loses it
/// in another version.
fn reset_fields(write: &Write<'_>, api_version: &str) -> ResetFields {
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
    let Some(filter) = write.kind.untouched(write.subresource).or_else(usual) else {
        return ResetFields::default();
    };
    let others = declaration.versions.iter().filter(|version| **version != *write.served_version);
    let in_others = others.fold(ResetFields::default(), |fields, version| {
        let form = ObjectForm::new(write.kind, version, write.subresource);
        fields.with(&form.api_version(), filter.clone())
    });
    in_others.with(api_version, filter)
}

/// An object with the owners that another form of it tells.
fn with_owners_of(mut object: Value, told: &Value) -> Value {
    if let Some(mut meta) = MetaMut::of(&mut object) {
        meta.set_managed_fields(Meta::of(told).managed_fields().to_vec());
    }
    object
}
