//! `metadata.managedFields`: who owns what.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1::FieldsV1Error;
use super::lazy_fields::LazyFields;
use super::path_element::push_json_string;
use super::timestamp;

/// How fields came to be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// By a configuration that was applied.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// As it stands in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Whose an entry is. One who applies has a single entry whatever the version; one who
/// updates has one for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagerId {
    /// The name it goes by.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it writes; empty if it applies.
    pub api_version: String,
    /// The subresource it writes to; empty for the object itself.
    pub subresource: String,
}

impl ManagerId {
    /// Whoever writes like this.
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

    /// Text that upstream orders managers by: its JSON form.
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

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsEntry {
    /// Whose it is.
    pub id: ManagerId,
    /// The version of the object in which the fields are those.
    pub api_version: String,
    /// When it last changed something.
    pub time: Option<String>,
    /// The fields, read when they are needed.
    pub(super) fields: LazyFields,
}

/// All that is owned of an object, at most one entry for each manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    /// In no particular order.
    pub entries: Vec<ManagedFieldsEntry>,
}

/// Why `metadata.managedFields` could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedFieldsError {
    /// Not a list of entries.
    #[error("managedFields must be a list of entries")]
    NotAList,
    /// A field of an entry with something else than text.
    #[error("{field} of managed fields entry {at} must be a string")]
    NotText {
        /// The entry.
        at: usize,
        /// Its field.
        field: &'static str,
    },
    /// An operation that is not known.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry without a version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry that does not say in what form its fields are.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// An entry with fields in a form that is not known.
    #[error("invalid fieldsType {fields_type:?} in managed fields entry {at}")]
    FieldsType {
        /// The entry.
        at: usize,
        /// The form.
        fields_type: String,
    },
    /// A time that is none.
    #[error("invalid time {time:?} in managed fields entry {at}")]
    Time {
        /// The entry.
        at: usize,
        /// What stands there.
        time: String,
    },
    /// Fields that are no set.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsV1Error),
}

impl ManagedFields {
    /// Reads the entries; none if there is nothing.
    ///
    /// # Errors
    /// If one of them is not as it should be.
    pub fn decode(managed_fields: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        Self::decode_owned(managed_fields.cloned())
    }

    /// Reads the entries, which may be kept as they are.
    pub(super) fn decode_owned(managed_fields: Option<Value>) -> Result<Self, ManagedFieldsError> {
        let entries = match managed_fields {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedFieldsError::NotAList),
        };
        let mut managed = Self { entries: Vec::with_capacity(entries.len()) };
        let mut places = HashMap::with_capacity(if entries.len() > 16 { entries.len() } else { 0 });
        for (at, entry) in entries.into_iter().enumerate() {
            let Value::Object(entry) = entry else { return Err(ManagedFieldsError::NotAList) };
            managed.put(EncodedEntry { at, entry }.decode()?, &mut places);
        }
        Ok(managed)
    }

    /// Of two entries of one manager the later counts. A long list is hostile, and must not
    /// take time that grows with its square.
    fn put(&mut self, entry: ManagedFieldsEntry, places: &mut HashMap<ManagerId, usize>) {
        let known = if places.capacity() == 0 {
            self.entries.iter().position(|other| other.id == entry.id)
        } else {
            let next = self.entries.len();
            let place = *places.entry(entry.id.clone()).or_insert(next);
            (place < next).then_some(place)
        };
        match known {
            Some(place) => self.entries[place] = entry,
            None => self.entries.push(entry),
        }
    }

    /// The entry of a manager.
    pub fn get(&self, id: &ManagerId) -> Option<&ManagedFieldsEntry> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Puts an entry in the place of that of the same manager, which is given back.
    pub(super) fn replace(&mut self, entry: ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
        match self.entries.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => Some(std::mem::replace(known, entry)),
            None => {
                self.entries.push(entry);
                None
            }
        }
    }

    /// Writes the entries, those that apply first, then from the oldest to the newest; nothing
    /// if there are none.
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
    /// An entry that says that a manager owns these fields of this version.
    pub fn new(id: ManagerId, api_version: &str, time: Option<String>, fields: FieldSet) -> Self {
        Self { id, api_version: api_version.to_owned(), time, fields: fields.into() }
    }

    /// What is owned.
    pub fn fields(&self) -> Cow<'_, FieldSet> {
        self.fields.read()
    }

    /// When it last changed something; entries without a time are older than any.
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

/// Whether this is a request to forget who owns what: one empty entry. So is a list without any, which is read
/// as that where objects have types; in others it says nothing.
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

/// An entry as it was sent.
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
