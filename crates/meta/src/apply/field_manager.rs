//! Field ownership of one resource or subresource, kept on each write.

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

/// How many entries of updates an object keeps. The oldest are merged into one when there are
/// more, so that managedFields stay small on an object that many write.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Who owns what was merged because it was old.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Who owns what was there before anything was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes without a name.
const UNKNOWN_MANAGER: &str = "unknown";

/// Field ownership of one resource, or one of its subresources, at one version.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version that is written.
    pub api_version: &'a str,
    /// The kind that is written.
    pub kind: &'a str,
    /// The subresource that is written to; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this resource does not let its writers change.
    pub reset_fields: &'a ResetFields,
    /// What an object is before anything is written to it: see
    /// [`Type::initial`](super::typed::Type::initial). Nothing for custom objects.
    pub initial: Option<&'a Value>,
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// The time, in RFC 3339 to the second.
    pub now: &'a str,
}

/// What came of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object, to be defaulted, validated and stored.
    pub object: Value,
    /// Whether it differs from the live one, but for the times of entries.
    pub changed: bool,
}

/// Why a write could not be tracked, or a configuration not be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own what would change: 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// The configuration is of another kind or version: 400.
    #[error("invalid object type: {0}")]
    WrongType(String),
    /// The configuration says who owns what: 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfig,
    /// An object is not of its type; for a configuration this is the client's fault.
    #[error("failed to create typed {role} object ({object}): {errors}")]
    NotTyped {
        /// Which it is: `patch` for a configuration, or `live`.
        role: &'static str,
        /// The object, printed.
        object: String,
        /// What is wrong with it.
        errors: TypeErrors,
    },
    /// The managedFields of the live object cannot be read.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(#[from] ManagedFieldsError),
    /// The object cannot be converted to a version that someone owns fields of.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// There is no such version of the kind.
    #[error("no type of version {0}")]
    NoSuchVersion(String),
    /// Nothing is left of the object.
    #[error("failed to convert new typed object: nothing is left of it")]
    NothingLeft,
}

impl FieldManager<'_> {
    /// Tracks a create, update or patch: the new object, with managedFields that say what the
    /// writer owns now. `live` is nothing on creation.
    ///
    /// # Errors
    /// If one of the objects is not of its type, or cannot be converted.
    pub fn update(&self, live: Option<&Value>, new: Value, writer: &Writer<'_>) -> Result<Value, ApplyError> {
        let mut new = new;
        let sent = take_managed_fields(&mut new);
        let managed = self.track(live, sent, &new, writer)?;
        set_managed_fields(&mut new, managed);
        Ok(new)
    }

    /// Like [`FieldManager::update`], but a write that cannot be tracked is let through
    /// without managedFields: an object must not become unwritable by them.
    pub fn update_no_errors(&self, live: Option<&Value>, new: Value, writer: &Writer<'_>) -> Value {
        let mut new = new;
        let sent = take_managed_fields(&mut new);
        let managed = self.track(live, sent, &new, writer).unwrap_or_default();
        set_managed_fields(&mut new, managed);
        new
    }

    /// Applies a configuration to an object, or creates it if there is none.
    ///
    /// # Errors
    /// If the configuration is not of the type, or others own what it would change and it
    /// does not force.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        writer: &Writer<'_>,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let start = self.start();
        let before = live.unwrap_or(&start);
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

    /// Who owns what after an update.
    fn track(
        &self,
        live: Option<&Value>,
        sent: Option<Value>,
        new: &Value,
        writer: &Writer<'_>,
    ) -> Result<ManagedFields, ApplyError> {
        let managed = self.managed_before(live, sent);
        let is_create = live.is_none_or(|live| uid(live).is_empty());
        // What is not tracked from its creation is tracked from its first apply.
        if managed.entries.is_empty() && !is_create {
            return Ok(managed);
        }
        if let Some(live) = live {
            return self.track_update(live, new, managed, writer);
        }
        let start = self.start();
        let is_first = managed.entries.is_empty();
        match is_first.then(|| self.updater().ok()?.created(&start, new)).flatten() {
            Some(fields) => Ok(self.first_entry(fields, writer)),
            None => self.track_update(&start, new, managed, writer),
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

    /// Entries that a client sends count, so that it can change them; one that knows nothing
    /// of them must not lose them. A subresource does not take them.
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
            // Nearly every patch leaves them as they were, and what it left need not be copied.
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
            managed = self.track_update(&self.start(), live, managed, &before)?;
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

    /// What an object is before anything is written to it.
    fn start(&self) -> Value {
        let mut start = match self.initial {
            Some(Value::Object(initial)) => initial.clone(),
            _ => Map::new(),
        };
        start.insert("apiVersion".to_owned(), self.api_version.into());
        start.insert("kind".to_owned(), self.kind.into());
        Value::Object(start)
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

/// Merges the oldest entries of updates, those of each version into one, until few enough
/// remain.
fn cap_update_managers(managed: &mut ManagedFields) {
    let is_update = |entry: &ManagedFieldsEntry| entry.id.operation == Operation::Update;
    let mut count = managed.entries.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_MANAGERS {
        return;
    }
    let (mut updates, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut managed.entries).into_iter().partition(is_update);
    // What was merged before is the oldest, whatever its time says to the second.
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

/// One entry for all of a version; the time is that of the youngest.
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

/// The type of an object as Go prints it.
fn type_name(object: &Value) -> String {
    let (api_version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let slash = match api_version.matches('/').count() {
        0 => "/",
        1 => "",
        // Of no group and version at all, whatever its kind.
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
