//! JSON Patch (RFC 6902): a list of operations, applied in order, all or none.
//!
//! kube-apiserver's implementation deviates from the RFC, and clients rely on it: indices may be
//! negative and count from the end, `replace` also sets an absent field of an object, an absent
//! value is null, and text before the first slash of a path is ignored.

mod create;
mod document;
mod pointer;

use serde_json::{Map, Value};

use super::error::PatchError;
use super::limits::{MAX_JSON_PATCH_OPERATIONS, check_depth};
use document::Document;

pub use create::create_patch;

/// A JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
}

impl JsonPatch {
    /// Decodes a request body.
    ///
    /// # Errors
    /// If the body is not a JSON list of objects, is nested too deeply or too long. Invalid
    /// operations are detected when the patch is applied.
    pub fn from_slice(body: &[u8]) -> Result<Self, PatchError> {
        let body = serde_json::from_slice(body).map_err(|error| PatchError::Malformed(error.to_string()))?;
        Self::from_value(body)
    }

    /// Creates a patch from a decoded body.
    ///
    /// # Errors
    /// Like [`JsonPatch::from_slice`].
    pub fn from_value(body: Value) -> Result<Self, PatchError> {
        check_depth(&body)?;
        let items = match body {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(PatchError::cannot_unmarshal(&other, "value of type jsonpatch.Patch")),
        };
        let operations = items.into_iter().map(Operation::from_value).collect::<Result<Vec<_>, _>>()?;
        if operations.len() > MAX_JSON_PATCH_OPERATIONS {
            return Err(PatchError::TooManyOperations { operations: operations.len() });
        }
        Ok(Self { operations })
    }

    /// Validates the fields of a body strictly: returns one message per unknown field of an
    /// operation.
    ///
    /// Duplicate fields are not visible in a decoded body; the decoder reports them.
    ///
    /// # Errors
    /// If the body is not a list of objects, or `op`, `path` or `from` is not a string. Without
    /// field validation the latter is detected when the patch is applied.
    pub fn strict_errors(body: &Value) -> Result<Vec<String>, PatchError> {
        let items = match body {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => return Err(undecodable(other, "value of type []handlers.jsonPatchOp")),
        };
        let mut messages = Vec::new();
        for (index, item) in items.iter().enumerate() {
            strict_errors_of_operation(index, item, &mut messages)?;
        }
        Ok(messages)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if the patch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns true if the patch has copy operations, so that the result may be larger than object
    /// and patch together.
    pub fn copies(&self) -> bool {
        self.operations.iter().any(|operation| operation.kind() == "copy")
    }

    /// Applies all operations to an object.
    ///
    /// # Errors
    /// If an operation fails.
    pub fn apply(&self, object: Value) -> Result<Value, PatchError> {
        check_depth(&object)?;
        let mut document = Document::new(object);
        for (index, operation) in self.operations.iter().enumerate() {
            document.operate(operation).map_err(|error| PatchError::OperationFailed { index, error })?;
        }
        let last = self.operations.len().saturating_sub(1);
        document.finish().map_err(|error| PatchError::OperationFailed { index: last, error })
    }
}

/// An operation, as sent by the client.
#[derive(Clone, Debug, PartialEq)]
struct Operation {
    fields: Map<String, Value>,
}

impl Operation {
    fn from_value(item: Value) -> Result<Self, PatchError> {
        match item {
            Value::Object(fields) => Ok(Self { fields }),
            Value::Null => Ok(Self { fields: Map::new() }),
            other => Err(PatchError::cannot_unmarshal(&other, "value of type jsonpatch.Operation")),
        }
    }

    fn kind(&self) -> &str {
        self.fields.get("op").and_then(Value::as_str).unwrap_or("unknown")
    }

    /// Returns the value; an absent one is null.
    fn value(&self) -> &Value {
        self.fields.get("value").unwrap_or(&Value::Null)
    }

    /// Returns a field, unless it is absent or null.
    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }
}

fn strict_errors_of_operation(
    index: usize,
    item: &Value,
    messages: &mut Vec<String>,
) -> Result<(), PatchError> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Ok(()),
        other => return Err(undecodable(other, "value of type handlers.jsonPatchOp")),
    };
    for (name, value) in fields {
        match name.as_str() {
            "value" => {}
            "op" | "path" | "from" if value.is_string() || value.is_null() => {}
            "op" | "path" | "from" => {
                return Err(undecodable(value, &format!("struct field jsonPatchOp.{name} of type string")));
            }
            _ => messages.push(format!("json patch unknown field \"[{index}].{name}\"")),
        }
    }
    Ok(())
}

fn undecodable(found: &Value, into: &str) -> PatchError {
    PatchError::Malformed(format!("error decoding patch: {}", PatchError::cannot_unmarshal(found, into)))
}
