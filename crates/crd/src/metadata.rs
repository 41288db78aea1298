//! Metadata of custom resources and of objects embedded in them.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name::{dns1035_label, object_path_segment};
use coracle_meta::object::{Meta, validate_object_meta};
use serde_json::{Map, Value};

use crate::Structural;
use crate::structural::Schema;

/// Metadata decoded as `ObjectMeta`.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Known fields only, in canonical form.
    pub value: Value,
    /// Paths of unknown fields, relative to the metadata.
    pub unknown: Vec<String>,
}

/// Decodes metadata as `ObjectMeta`, whose type this crate does not have; fails with
/// kube-apiserver's message.
pub type ReadMetadata<'a> = &'a dyn Fn(&Value) -> Result<Metadata, String>;

/// Reason why a body is not a valid custom resource.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConformError {
    /// `apiVersion`, `kind` or metadata is malformed.
    #[error("{0}")]
    Metadata(String),
    /// The same for an embedded object.
    #[error(transparent)]
    Embedded(#[from] FieldError),
}

impl Structural {
    /// Converts a decoded body to the canonical form of its kind, as decoding does for built-in
    /// kinds: typed metadata, no unknown fields, no redundant nulls. Does not set defaults; see
    /// [`Structural::set_defaults`]. Returns the paths of unknown fields.
    ///
    /// `drop_invalid` is for stored objects, in which malformed metadata is dropped instead of
    /// rejected.
    ///
    /// # Errors
    /// If `apiVersion`, `kind` or metadata is malformed, also in embedded objects.
    pub fn conform(
        &self,
        object: &mut Value,
        read: ReadMetadata<'_>,
        drop_invalid: bool,
    ) -> Result<Vec<String>, ConformError> {
        let Value::Object(fields) = object else {
            return Err(ConformError::Metadata("the body is not an object".to_owned()));
        };
        for name in ["kind", "apiVersion"] {
            if let Some(field) = fields.get(name).filter(|field| !field.is_string()) {
                let message = format!(
                    ".{name} accessor error: {} is of the type {}, expected string",
                    plain(field),
                    go_type(field)
                );
                return Err(ConformError::Metadata(message));
            }
        }
        let reader = Reader { read, drop_invalid };
        let metadata = fields.get("metadata").map(|found| reader.read(found)).transpose();
        let metadata = metadata.map_err(ConformError::Metadata)?;
        let mut unknown: Vec<_> = prefixed(metadata.as_ref(), "metadata").collect();
        if !self.is_plain(object) {
            unknown.extend(self.prune(object));
            self.drop_nulls(object);
        }
        let mut embedded = Vec::new();
        reader.coerce(object, self.root(), false, &Path::NIL, &mut embedded)?;
        embedded.sort_unstable();
        unknown.extend(embedded);
        if let Some(metadata) = metadata {
            object["metadata"] = metadata.value;
        }
        Ok(unknown)
    }

    /// Validates `apiVersion`, `kind` and metadata of embedded objects.
    pub fn validate_embedded(&self, object: &Value, errors: &mut ErrorList) {
        validate(object, self.root(), false, &Path::NIL, errors);
    }
}

/// Formats a value as Go's `%v` does, as far as type errors contain it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn prefixed(metadata: Option<&Metadata>, path: impl std::fmt::Display) -> impl Iterator<Item = String> {
    let unknown = metadata.map_or(&[][..], |metadata| &metadata.unknown);
    unknown.iter().map(move |field| format!("{path}.{field}"))
}

pub(crate) struct Reader<'a> {
    pub(crate) read: ReadMetadata<'a>,
    pub(crate) drop_invalid: bool,
}

impl Reader<'_> {
    fn read(&self, found: &Value) -> Result<Metadata, String> {
        (self.read)(found).or_else(|message| match found {
            _ if !self.drop_invalid => Err(message),
            Value::Object(fields) => Ok(self.read_each(fields)),
            other => Err(format!("invalid metadata: expected object, got {}", go_type(other))),
        })
    }

    /// Decodes the fields one by one, and drops those that are malformed.
    fn read_each(&self, fields: &Map<String, Value>) -> Metadata {
        let mut all = Metadata { value: Value::Object(Map::new()), unknown: Vec::new() };
        for (name, field) in fields {
            let single = Value::Object(Map::from_iter([(name.clone(), field.clone())]));
            let Ok(Metadata { value: Value::Object(fields), unknown }) = (self.read)(&single) else {
                continue;
            };
            all.unknown.extend(unknown);
            if let Value::Object(all) = &mut all.value {
                all.extend(fields);
            }
        }
        all
    }

    /// Converts the metadata of embedded objects to canonical form.
    pub(crate) fn coerce(
        &self,
        value: &mut Value,
        schema: Schema<'_>,
        is_root: bool,
        path: &Path<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        if !is_root && !schema.has_embedded_within() {
            return Ok(());
        }
        match value {
            Value::Object(fields) => {
                if is_root || schema.is_embedded_resource() {
                    self.coerce_object(fields, path, unknown)?;
                }
                for (name, field) in fields {
                    if let Some(property) = schema.property(name) {
                        self.coerce(field, property, false, &path.child(name), unknown)?;
                    } else if let Some(additional) = schema.additional().schema() {
                        self.coerce(field, additional, false, &path.key(name), unknown)?;
                    }
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return Ok(()) };
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(index, item)| {
                    self.coerce(item, schema, false, &path.index(index), unknown)
                })
            }
            _ => Ok(()),
        }
    }

    fn coerce_object(
        &self,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            let Some(field) = fields.get(name).filter(|field| !field.is_string()) else { continue };
            if !self.drop_invalid {
                return Err(FieldError::invalid(&path.child(name), field, "must be a string"));
            }
            fields.remove(name);
        }
        let Some(found) = fields.get_mut("metadata") else { return Ok(()) };
        let path = path.child("metadata");
        match self.read(found) {
            Ok(metadata) => {
                unknown.extend(prefixed(Some(&metadata), path));
                *found = metadata.value;
                Ok(())
            }
            Err(_) if self.drop_invalid => Ok(()),
            Err(message) => Err(FieldError::invalid(&path, &*found, message)),
        }
    }
}

pub(crate) fn validate(
    value: &Value,
    schema: Schema<'_>,
    is_root: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !is_root && !schema.has_embedded_within() {
        return;
    }
    match value {
        Value::Object(fields) => {
            if is_root || schema.is_embedded_resource() {
                validate_object(fields, path, errors);
            }
            for (name, field) in fields {
                if let Some(property) = schema.property(name) {
                    validate(field, property, false, &path.child(name), errors);
                } else if let Some(additional) = schema.additional().schema() {
                    validate(field, additional, false, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                validate(item, schema, false, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn validate_object(fields: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for (name, problem) in [("apiVersion", api_version_problem as fn(&str) -> _), ("kind", kind_problem)] {
        let path = path.child(name);
        match fields.get(name) {
            None => errors.push(FieldError::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&path, text.as_str(), "must not be empty"));
            }
            Some(Value::String(text)) => {
                errors
                    .extend(problem(text).map(|problem| FieldError::invalid(&path, text.as_str(), problem)));
            }
            Some(other) => errors.push(FieldError::invalid(&path, other, "must be a string")),
        }
    }
    if let Some(Value::Object(metadata)) = fields.get("metadata") {
        let mut named;
        let meta = if Meta::from_map(metadata).name().is_empty() {
            // Embedded objects need no name, but the validation of metadata requires one.
            named = metadata.clone();
            named.insert("name".to_owned(), Value::from("fakename"));
            Meta::from_map(&named)
        } else {
            Meta::from_map(metadata)
        };
        let namespaced = !meta.namespace().is_empty();
        errors.extend(validate_object_meta(meta, namespaced, object_path_segment, &path.child("metadata")));
    }
}

fn api_version_problem(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind_problem(text: &str) -> Option<String> {
    let messages = dns1035_label(&text.to_lowercase());
    let problem = || format!("may have mixed case, but should otherwise match: {}", messages.join(","));
    (!messages.is_empty()).then(problem)
}
