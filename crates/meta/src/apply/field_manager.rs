//! Field management: updates the field ownership of a resource or subresource on each write.

use serde_json::{Map, Value};

use super::conflict::Conflicts;
use super::equality::unchanged_but_for_times;
use super::field_filter::ResetFields;
use super::field_set::FieldSet;
use super::last_applied;
use super::lazy_fields::LazyFields;
use super::managed_fields::{
    ManagedFields, ManagedFieldsEntry, ManagedFieldsError, ManagerId, Operation, is_reset,
};
use super::typed::{Strictness, TypeErrors};
use super::update::{NEVER_OWNED, Updater};
use super::versions::{ConversionError, Versions};

/// Maximum number of entries with operation `Update` in managedFields. Beyond it the oldest are
/// merged into one, so that managedFields stay small on an object with many writers.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Manager name of old entries that were merged.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Manager name for fields written before managedFields were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Manager name of writers that give none.
const UNKNOWN_MANAGER: &str = "unknown";

/// Field management of one resource or subresource, at one version.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// Types and conversions of the kind's versions.
    pub versions: &'a dyn Versions,
    /// The version of the request.
    pub api_version: &'a str,
    /// The kind of the request.
    pub kind: &'a str,
    /// The subresource of the request; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that writes to this resource do not change.
    pub reset_fields: &'a ResetFields,
    /// The state of a new object before anything is written to it: see
    /// [`Type::initial`](super::typed::Type::initial). `None` for custom resources.
    pub initial: Option<&'a Value>,
}

/// The manager and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager's name.
    pub manager: &'a str,
    /// The time, in RFC 3339 with seconds.
    pub now: &'a str,
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object, to be defaulted, validated and stored.
    pub object: Value,
    /// True if the object differs from the live one in more than timestamps of managedFields.
    pub changed: bool,
}

/// Reason why a write could not be tracked, or a configuration not be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields that would change: 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// The configuration has another kind or version: 400.
    #[error("invalid object type: {0}")]
    WrongType(String),
    /// The configuration contains managedFields: 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfig,
    /// An object does not match its type; for a configuration this is the client's error.
    #[error("failed to create typed {role} object ({object}): {errors}")]
    NotTyped {
        /// `patch` for a configuration, or `live`.
        role: &'static str,
        /// The object, formatted for the message.
        object: String,
        /// The mismatches.
        errors: TypeErrors,
    },
    /// The managedFields of the live object are malformed.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(#[from] ManagedFieldsError),
    /// The object cannot be converted to the version of a managedFields entry.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// The kind has no such version.
    #[error("no type of version {0}")]
    NoSuchVersion(String),
    /// Apply removed every field of the object.
    #[error("failed to convert new typed object: nothing is left of it")]
    NothingLeft,
}

impl FieldManager<'_> {
    /// Tracks a create, update or patch: returns the new object with updated managedFields. `live`
    /// is `None` on creation.
    ///
    /// # Errors
    /// If an object does not match its type, or cannot be converted.
    pub fn update(&self, live: Option<&Value>, new: Value, writer: &Writer<'_>) -> Result<Value, ApplyError> {
        let mut new = new;
        let sent = take_managed_fields(&mut new);
        let managed = self.track(live, sent, &new, writer)?;
        set_managed_fields(&mut new, managed);
        Ok(new)
    }

    /// Like [`FieldManager::update`], but stores a write that cannot be tracked without
    /// managedFields: bad managedFields must not make an object unwritable.
    pub fn update_no_errors(&self, live: Option<&Value>, new: Value, writer: &Writer<'_>) -> Value {
        let mut new = new;
        let sent = take_managed_fields(&mut new);
        let managed = self.track(live, sent, &new, writer).unwrap_or_default();
        set_managed_fields(&mut new, managed);
        new
    }

    /// Applies a configuration to an object, or creates the object if `live` is `None`.
    ///
    /// # Errors
    /// If the configuration does not match the type, or without `force`, if other managers own
    /// fields it would change.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let initial_object = self.initial_object();
        let before = live.unwrap_or(&initial_object);
        let managed = ManagedFields::decode(managed_fields(before))?;
        self.check_kind(config)?;
        let result = self.apply_to(before, config, managed.clone(), writer, force);
        let (mut object, managed) = match result {
            Err(ApplyError::Conflicts(conflicts)) if writer.manager == last_applied::KUBECTL => {
                let object_type = self.updater()?.object_type;
                let remaining = last_applied::remaining(conflicts, object_type, self.api_version, before);
                if !remaining.is_empty() {
                    return Err(remaining.into());
                }
                self.apply_to(before, config, managed, writer, true)?
            }
            other => other?,
        };
        if writer.manager == last_applied::KUBECTL {
            last_applied::refresh(&mut object, config);
        }
        set_managed_fields(&mut object, managed);
        let changed = live.is_none_or(|live| !unchanged_but_for_times(live, &object));
        Ok(Applied { object, changed })
    }

    /// Computes the managedFields after an update.
    fn track(
        &self,
        live: Option<&Value>,
        sent: Option<Value>,
        new: &Value,
        writer: &Writer<'_>,
    ) -> Result<ManagedFields, ApplyError> {
        let managed = self.managed_before(live, sent);
        let is_create = live.is_none_or(|live| uid(live).is_empty());
        // An object created before tracking is tracked from its first apply on.
        if managed.entries.is_empty() && !is_create {
            return Ok(managed);
        }
        if let Some(live) = live {
            return self.track_update(live, new, managed, writer);
        }
        let initial_object = self.initial_object();
        let is_first = managed.entries.is_empty();
        match is_first.then(|| self.updater().ok()?.created(&initial_object, new)).flatten() {
            Some(fields) => Ok(self.first_entry(fields, writer)),
            None => self.track_update(&initial_object, new, managed, writer),
        }
    }

    fn first_entry(&self, fields: Map<String, Value>, writer: &Writer<'_>) -> ManagedFields {
        let entry = (!fields.is_empty()).then(|| ManagedFieldsEntry {
            id: self.id(writer, Operation::Update),
            api_version: self.api_version.to_owned(),
            time: Some(writer.now.to_owned()),
            fields: LazyFields::Encoded(Value::Object(fields)),
        });
        ManagedFields { entries: entry.into_iter().collect() }
    }

    /// Returns the managedFields to start from. Entries in the request replace the live ones, so
    /// that a client can change them; a client that sends none keeps the live ones. Writes to a
    /// subresource cannot change them.
    fn managed_before(&self, live: Option<&Value>, sent: Option<Value>) -> ManagedFields {
        let before = live.and_then(managed_fields);
        if self.subresource.is_empty() {
            if is_reset(sent.as_ref()) {
                return ManagedFields::default();
            }
            if let Ok(managed) = ManagedFields::decode_owned(sent)
                && !managed.entries.is_empty()
            {
                return managed;
            }
        } else if sent.as_ref() == before {
            // Almost every patch leaves the entries unchanged, so they can be moved instead of
            // copied.
            return ManagedFields::decode_owned(sent).unwrap_or_default();
        }
        ManagedFields::decode(before).unwrap_or_default()
    }

    fn track_update(
        &self,
        live: &Value,
        new: &Value,
        mut managed: ManagedFields,
        writer: &Writer<'_>,
    ) -> Result<ManagedFields, ApplyError> {
        let id = self.id(writer, Operation::Update);
        let updater = self.updater()?;
        let outcome = updater.update(live, new, &mut managed, &id)?;
        if outcome.is_malformed {
            check(&updater, new, Strictness::Stored, "new")?;
        }
        for entry in managed.entries.iter_mut().filter(|entry| outcome.has_changed && entry.id == id) {
            entry.time = Some(writer.now.to_owned());
        }
        cap_update_managers(&mut managed);
        Ok(managed)
    }

    fn apply_to(
        &self,
        live: &Value,
        config: &Value,
        managed: ManagedFields,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<(Value, ManagedFields), ApplyError> {
        let mut managed = managed;
        if managed.entries.is_empty() {
            let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
            managed = self.track_update(&self.initial_object(), live, managed, &before)?;
        }
        if config
            .get("metadata")
            .and_then(|metadata| metadata.get("managedFields"))
            .is_some_and(Value::is_array)
        {
            return Err(ApplyError::ManagedFieldsInConfig);
        }
        let updater = self.updater()?;
        check(&updater, config, Strictness::Applied, "patch")?;
        check(&updater, live, Strictness::Stored, "live")?;
        let id = self.id(writer, Operation::Apply);
        let new = updater.apply(live, config, &mut managed, &id, force)?;
        for entry in managed.entries.iter_mut().filter(|entry| entry.id == id) {
            entry.fields.remove(&NEVER_OWNED);
            if new.is_some() {
                entry.time = Some(writer.now.to_owned());
            }
        }
        managed.entries.retain(|entry| !entry.fields.is_empty());
        let object = new.unwrap_or_else(|| live.clone());
        if object.is_object() { Ok((object, managed)) } else { Err(ApplyError::NothingLeft) }
    }

    /// Returns the object before anything is written to it.
    fn initial_object(&self) -> Value {
        let mut initial_object = match self.initial {
            Some(Value::Object(initial)) => initial.clone(),
            _ => Map::new(),
        };
        initial_object.insert("apiVersion".to_owned(), self.api_version.into());
        initial_object.insert("kind".to_owned(), self.kind.into());
        Value::Object(initial_object)
    }

    fn updater(&self) -> Result<Updater<'_>, ApplyError> {
        let no_type = || ApplyError::NoSuchVersion(self.api_version.to_owned());
        Ok(Updater {
            versions: self.versions,
            api_version: self.api_version,
            object_type: self.versions.object_type(self.api_version).ok_or_else(no_type)?,
            reset_fields: self.reset_fields,
        })
    }

    fn id(&self, writer: &Writer<'_>, operation: Operation) -> ManagerId {
        let manager = if writer.manager.is_empty() { UNKNOWN_MANAGER } else { writer.manager };
        ManagerId::new(manager, operation, self.api_version, self.subresource)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        if text(config, "apiVersion") == self.api_version && text(config, "kind") == self.kind {
            return Ok(());
        }
        Err(ApplyError::WrongType(type_name(config)))
    }
}

fn check(
    updater: &Updater<'_>,
    object: &Value,
    strictness: Strictness,
    role: &'static str,
) -> Result<(), ApplyError> {
    updater.object_type.validate(object, strictness).map_err(|errors| {
        let metadata = &object["metadata"];
        let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
        let object = format!("{namespace}/{name}; {}", type_name(object));
        ApplyError::NotTyped { role, object, errors }
    })
}

/// Merges the oldest `Update` entries, per version, until at most [`MAX_UPDATE_MANAGERS`] remain.
fn cap_update_managers(managed: &mut ManagedFields) {
    let is_update = |entry: &ManagedFieldsEntry| entry.id.operation == Operation::Update;
    let mut count = managed.entries.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_MANAGERS {
        return;
    }
    let (mut updates, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut managed.entries).into_iter().partition(is_update);
    // An entry that was merged before is the oldest, whatever its timestamp.
    updates.sort_by_cached_key(|entry| (!is_ancient(&entry.id), entry.seconds(), entry.id.sort_key()));
    let mut rest = updates.into_iter();
    let mut buckets: Vec<Vec<ManagedFieldsEntry>> = Vec::new();
    while count > MAX_UPDATE_MANAGERS {
        let Some(entry) = rest.next() else { break };
        match buckets.iter_mut().find(|bucket| bucket[0].api_version == entry.api_version) {
            Some(bucket) => {
                bucket.push(entry);
                count -= 1;
            }
            None => buckets.push(vec![entry]),
        }
    }
    managed.entries =
        others.into_iter().chain(buckets.into_iter().filter_map(merge_bucket)).chain(rest).collect();
}

/// Merges the entries of one version; the result has the latest timestamp.
fn merge_bucket(mut bucket: Vec<ManagedFieldsEntry>) -> Option<ManagedFieldsEntry> {
    if bucket.len() < 2 {
        return bucket.pop();
    }
    let fields = bucket.iter().map(|entry| entry.fields().into_owned()).collect();
    let youngest = bucket.pop()?;
    let id = ManagerId::new(ANCIENT_CHANGES, Operation::Update, &youngest.api_version, "");
    Some(ManagedFieldsEntry::new(id, &youngest.api_version, youngest.time, FieldSet::union_all(fields)))
}

fn is_ancient(id: &ManagerId) -> bool {
    id.manager == ANCIENT_CHANGES && id.subresource.is_empty()
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "uid"))
}

/// Formats group, version and kind as Go does.
fn type_name(object: &Value) -> String {
    let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let slash = match api_version.matches('/').count() {
        0 => "/",
        1 => "",
        // A malformed group/version prints as empty, without the kind.
        _ => return "/, Kind=".to_owned(),
    };
    format!("{slash}{api_version}, Kind={kind}")
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn set_managed_fields(object: &mut Value, managed: ManagedFields) {
    let Some(managed) = managed.encode() else {
        take_managed_fields(object);
        return;
    };
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), managed);
    }
}
