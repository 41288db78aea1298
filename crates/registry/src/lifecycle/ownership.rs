//! Field ownership (`managedFields`), updated with every write.

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

/// The managers, forms and fields by which a write updates field ownership.
pub(super) struct Ownership<'a> {
    /// The form in which the client writes; managed fields refer to its field names.
    served: ObjectForm<'a>,
    /// The form of the given objects.
    stored: ObjectForm<'a>,
    /// Group and version of the client's form.
    api_version: Cow<'a, str>,
    subresource: &'a str,
    manager: &'a str,
    reset_fields: ResetFields,
}

impl<'a> Ownership<'a> {
    /// The ownership for the object or subresource of a write.
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

    /// Updates the ownership of fields after an update from `live` to `new`.
    pub(super) fn track(&self, live: Option<&Value>, new: Value, now: Time) -> Value {
        // Ownership requires a schema.
        if self.served.schema().is_none() {
            return new;
        }
        let now = now.to_string();
        let writer = Writer { manager: self.manager, now: &now };
        let live = live.map(|live| self.served.of_stored(Cow::Borrowed(live)));
        let note =
            |new: Value| self.with_manager(|manager| manager.update_no_errors(live.as_deref(), new, &writer));
        let mut tracked = if self.served.is_converted() {
            let source = note(self.served.of_stored(Cow::Borrowed(&new)).into_owned());
            with_owners_of(new, &source)
        } else {
            note(new)
        };
        self.stored.settle(&mut tracked);
        tracked
    }

    /// Merges an applied configuration, which has the client's form, into `live`.
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

    /// The result of merging into `before`, which is `live` in the client's form. If the merge changed nothing, the
    /// result is `live`, because a conversion there and back might change it.
    fn converted(&self, live: &Value, before: Value, merged: Value, config: &Value) -> Result<Value> {
        if with_owners_of(before, &merged) == merged {
            return Ok(with_owners_of(live.clone(), &merged));
        }
        self.conform(merged, config)
    }

    /// Conforms a merged object to the schema, and converts it into the stored form.
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
    /// Sets the managed fields of an object that is returned but not stored.
    pub fn note_ownership(&self, write: &Write<'_>, object: Value) -> Value {
        Ownership::of(write).track(None, object, self.now())
    }
}

/// Fields that the write never changes, in the version of the client and in all others: no manager gets to own them
/// by this write, nor loses them.
fn reset_fields(write: &Write<'_>, api_version: &str) -> ResetFields {
    let declaration = write.declaration();
    let usual = || {
        let mut fields: Vec<&[&str]> = Vec::new();
        let kept_paths: Vec<[&str; 2]>;
        match write.subresource {
            "" if declaration.has_status() => fields.push(&["status"]),
            "status" => {
                fields.push(&["spec"]);
                match declaration.status_metadata {
                    StatusMetadata::Kept => fields.push(&["metadata"]),
                    other => {
                        kept_paths = other.kept_fields().iter().map(|field| ["metadata", *field]).collect();
                        fields.extend(kept_paths.iter().map(<[&str; 2]>::as_slice));
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

/// The object with the managed fields of another form of it.
fn with_owners_of(mut object: Value, source: &Value) -> Value {
    if let Some(mut meta) = MetaMut::of(&mut object) {
        meta.set_managed_fields(Meta::of(source).managed_fields().to_vec());
    }
    object
}
