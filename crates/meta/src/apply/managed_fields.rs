//! `metadata.managedFields`: field ownership by manager.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1::FieldsV1Error;
use super::lazy_fields::LazyFields;
use super::path_element::push_json_string;
use super::timestamp;

/// The operation by which fields came to be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// Returns the value of `operation` in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry. A manager has one entry for apply regardless of the version, and one
/// for updates per version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagerId {
    /// The manager's name.
    pub manager: String,
    /// The operation.
    pub operation: Operation,
    /// The version of the update; empty for apply.
    pub api_version: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
}

impl ManagerId {
    /// Creates the identity of a manager; ignores `api_version` for apply.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Returns the sort key of managers in kube-apiserver: the JSON form.
    pub(super) fn sort_key(&self) -> String {
        let mut key = String::from("{");
        let fields = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|field| !field.1.is_empty()) {
            if key.len() > 1 {
                key.push(',');
            }
            push_json_string(&mut key, name, true);
            key.push(':');
            push_json_string(&mut key, value, true);
        }
        key.push('}');
        key
    }
}

/// One entry of managedFields: the fields that a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    /// The manager.
    pub id: ManagerId,
    /// The version of the object to which the field paths refer.
    pub api_version: String,
    /// The time of the manager's last change.
    pub time: Option<String>,
    /// The fields, decoded lazily.
    pub(super) fields: LazyFields,
}

/// All entries of an object, at most one per manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    /// Unordered; sorted by [`ManagedFields::encode`].
    pub entries: Vec<ManagedFieldsEntry>,
}

/// Reason why `metadata.managedFields` could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedFieldsError {
    /// The value is not a list of entries.
    #[error("managedFields must be a list of entries")]
    NotAList,
    /// A field of an entry is not a string.
    #[error("{field} of managed fields entry {at} must be a string")]
    NotText {
        /// Index of the entry.
        at: usize,
        /// The field.
        field: &'static str,
    },
    /// The operation is unknown.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no `apiVersion`.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry has no `fieldsType`.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// An entry has an unknown `fieldsType`.
    #[error("invalid fieldsType {fields_type:?} in managed fields entry {at}")]
    FieldsType {
        /// Index of the entry.
        at: usize,
        /// The value of `fieldsType`.
        fields_type: String,
    },
    /// The time of an entry is malformed.
    #[error("invalid time {time:?} in managed fields entry {at}")]
    Time {
        /// Index of the entry.
        at: usize,
        /// The value of `time`.
        time: String,
    },
    /// The `fieldsV1` of an entry is malformed.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsV1Error),
}

impl ManagedFields {
    /// Decodes the entries; an absent list has none.
    ///
    /// # Errors
    /// If an entry is malformed.
    pub fn decode(managed_fields: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        Self::decode_owned(managed_fields.cloned())
    }

    /// Decodes the entries like [`ManagedFields::decode`], without copying their fields.
    pub(super) fn decode_owned(managed_fields: Option<Value>) -> Result<Self, ManagedFieldsError> {
        let entries = match managed_fields {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedFieldsError::NotAList),
        };
        let mut managed = Self { entries: Vec::with_capacity(entries.len()) };
        let mut indices = HashMap::with_capacity(if entries.len() > 16 { entries.len() } else { 0 });
        for (at, entry) in entries.into_iter().enumerate() {
            let Value::Object(entry) = entry else { return Err(ManagedFieldsError::NotAList) };
            managed.put(EncodedEntry { at, entry }.decode()?, &mut indices);
        }
        Ok(managed)
    }

    /// Adds an entry; of two entries of one manager the later wins. A hostile request may have a
    /// long list, so this must not take quadratic time: `indices` is used for long lists.
    fn put(&mut self, entry: ManagedFieldsEntry, indices: &mut HashMap<ManagerId, usize>) {
        let existing = if indices.capacity() == 0 {
            self.entries.iter().position(|other| other.id == entry.id)
        } else {
            let next = self.entries.len();
            let index = *indices.entry(entry.id.clone()).or_insert(next);
            (index < next).then_some(index)
        };
        match existing {
            Some(index) => self.entries[index] = entry,
            None => self.entries.push(entry),
        }
    }

    /// Returns the entry of a manager.
    pub fn get(&self, id: &ManagerId) -> Option<&ManagedFieldsEntry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Adds an entry, replacing and returning an entry of the same manager.
    pub(super) fn replace(&mut self, entry: ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
        match self.entries.iter_mut().find(|existing| existing.id == entry.id) {
            Some(existing) => Some(std::mem::replace(existing, entry)),
            None => {
                self.entries.push(entry);
                None
            }
        }
    }

    /// Encodes the entries: first those of apply, then from oldest to newest. `None` if there are
    /// no entries.
    pub fn encode(mut self) -> Option<Value> {
        self.entries.sort_by(|a, b| {
            let by_time = a.id.operation.cmp(&b.id.operation).then_with(|| a.seconds().cmp(&b.seconds()));
            by_time.then_with(|| a.names().cmp(&b.names()))
        });
        let entries: Vec<_> = self.entries.into_iter().map(ManagedFieldsEntry::encode).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }
}

impl ManagedFieldsEntry {
    /// Creates an entry: the manager owns these fields of this version.
    pub fn new(id: ManagerId, api_version: &str, time: Option<String>, fields: FieldSet) -> Self {
        Self { id, api_version: api_version.to_owned(), time, fields: fields.into() }
    }

    /// Returns the fields.
    pub fn fields(&self) -> Cow<'_, FieldSet> {
        self.fields.read()
    }

    /// Returns the time in Unix seconds, or 0 for an entry without time, which sorts first.
    pub(super) fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(timestamp::to_unix).unwrap_or(0)
    }

    fn names(&self) -> [&str; 3] {
        [&self.id.manager, &self.api_version, &self.id.subresource]
    }

    fn encode(self) -> Value {
        let text = [
            ("manager", self.id.manager),
            ("operation", self.id.operation.as_str().to_owned()),
            ("apiVersion", self.api_version),
            ("time", self.time.unwrap_or_default()),
            ("fieldsType", "FieldsV1".to_owned()),
            ("subresource", self.id.subresource),
        ];
        let text = text.into_iter().filter(|(_, value)| !value.is_empty());
        let mut entry: Map<String, Value> =
            text.map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
        entry.insert("fieldsV1".to_owned(), self.fields.encode());
        Value::Object(entry)
    }
}

/// Returns true if the request resets managedFields with a list of one empty entry. An empty list
/// has the same effect for kinds with Go types; for others it has none.
pub fn is_reset(managed_fields: Option<&Value>) -> bool {
    let Some(Value::Array(entries)) = managed_fields else { return false };
    match entries.as_slice() {
        [Value::Object(entry)] => {
            EncodedEntry::FIELDS.iter().all(|name| entry.get(*name).is_none_or(is_absent))
        }
        [Value::Null] => true,
        _ => false,
    }
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

/// An entry of a request, not yet decoded.
struct EncodedEntry {
    at: usize,
    entry: Map<String, Value>,
}

impl EncodedEntry {
    const FIELDS: [&'static str; 7] =
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

    fn decode(mut self) -> Result<ManagedFieldsEntry, ManagedFieldsError> {
        let operation = match self.text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        if self.text("apiVersion")?.is_empty() {
            return Err(ManagedFieldsError::ApiVersion);
        }
        self.check_fields_type()?;
        let fields = LazyFields::new(self.entry.remove("fieldsV1").unwrap_or_default())?;
        let (time, api_version) = (self.time()?, self.text("apiVersion")?.to_owned());
        let id = ManagerId::new(self.text("manager")?, operation, &api_version, self.text("subresource")?);
        Ok(ManagedFieldsEntry { id, api_version, time, fields })
    }

    fn text(&self, field: &'static str) -> Result<&str, ManagedFieldsError> {
        match self.entry.get(field) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(ManagedFieldsError::NotText { at: self.at, field }),
        }
    }

    fn check_fields_type(&self) -> Result<(), ManagedFieldsError> {
        match self.text("fieldsType")? {
            "FieldsV1" => Ok(()),
            "" => Err(ManagedFieldsError::MissingFieldsType(self.at)),
            other => Err(ManagedFieldsError::FieldsType { at: self.at, fields_type: other.to_owned() }),
        }
    }

    fn time(&self) -> Result<Option<String>, ManagedFieldsError> {
        let time = self.text("time")?;
        if time.is_empty() {
            return Ok(None);
        }
        let canonical = timestamp::canonical(time);
        canonical.map(Some).ok_or_else(|| ManagedFieldsError::Time { at: self.at, time: time.to_owned() })
    }
}
