//! Execution of JSON patch operations on a document.

use serde_json::Value;

use super::Operation;
use super::pointer::{self, Pointer};
use crate::budget::{DecodeBudget, heap_bytes};
use crate::patch::describe::json_name;
use crate::patch::error::{OperationError, PointerError};
use crate::patch::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_SHIFTED_ITEMS, depth};

/// Depth that a document may reach between two measurements: still safe for the recursive drop, and
/// large enough above [`MAX_DEPTH`] that a patch cannot force a walk of the whole document at each
/// operation.
const MAX_DEPTH_UNMEASURED: usize = 2 * MAX_DEPTH;

/// A document with the resources consumed by operations so far.
pub(super) struct Document {
    value: Value,
    /// Upper bound of the nesting depth.
    depth: usize,
    /// Total encoded size of all copies.
    copied_bytes: usize,
    /// Memory budget for the values that operations add and copy.
    budget: DecodeBudget,
    /// List items shifted by insertions and removals before them.
    shifted_items: usize,
}

impl Document {
    /// Creates a document no deeper than [`MAX_DEPTH`].
    pub(super) fn new(value: Value) -> Self {
        Self { value, depth: MAX_DEPTH, copied_bytes: 0, budget: DecodeBudget::default(), shifted_items: 0 }
    }

    /// Returns the document after the last operation.
    pub(super) fn finish(mut self) -> Result<Value, OperationError> {
        self.measure()?;
        Ok(self.value)
    }

    /// Executes an operation.
    pub(super) fn operate(&mut self, operation: &Operation) -> Result<(), OperationError> {
        match operation.kind() {
            "add" => self.add(operation),
            "remove" => self.remove(operation),
            "replace" => self.replace(operation),
            "move" => self.relocate(operation),
            "copy" => self.copy(operation),
            "test" => self.test(operation),
            other => Err(OperationError::UnknownKind(other.to_owned())),
        }
    }

    fn add(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let at = OperationPath::read("add", operation)?;
        let path = at.path("doc is missing path")?;
        let parent = path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing path"))?;
        charge(&mut self.budget, operation.value(), path.key())?;
        shift(&mut self.shifted_items, parent)?;
        pointer::add(parent, path.key(), operation.value().clone()).map_err(|error| at.failed(error))?;
        self.deepened(path.depth() + depth(operation.value()))
    }

    fn remove(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let at = OperationPath::read("remove", operation)?;
        let path = at.path("doc is missing path")?;
        let parent = path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing path"))?;
        shift(&mut self.shifted_items, parent)?;
        pointer::remove(parent, path.key()).map_err(|error| at.failed(error))?;
        Ok(())
    }

    fn replace(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let at = OperationPath::read("replace", operation)?;
        let value = operation.value();
        if at.text.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(OperationError::ScalarDocument);
            }
            charge(&mut self.budget, value, "")?;
            self.value = value.clone();
            return self.deepened(depth(value));
        }
        let path = at.path("doc is missing path")?;
        let parent = path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing path"))?;
        charge(&mut self.budget, value, path.key())?;
        pointer::replace(parent, path.key(), value.clone()).map_err(|_| at.missing("doc is missing key"))?;
        self.deepened(path.depth() + depth(value))
    }

    fn relocate(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let from = OperationPath::read_from("move", operation)?;
        let source = from.path("doc is missing from path")?;
        let parent =
            source.parent_mut(&mut self.value).ok_or_else(|| from.missing("doc is missing from path"))?;
        shift(&mut self.shifted_items, parent)?;
        let value = pointer::remove(parent, source.key())
            .map_err(|error| OperationPath { text: source.key(), ..from }.failed(error))?;
        let at = OperationPath::read("move", operation)?;
        let path = at.path("doc is missing destination path")?;
        let parent =
            path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing destination path"))?;
        charge(&mut self.budget, &Value::Null, path.key())?;
        shift(&mut self.shifted_items, parent)?;
        pointer::add(parent, path.key(), value).map_err(|error| at.failed(error))?;
        self.deepened(path.depth() + self.depth.saturating_sub(source.depth()))
    }

    fn copy(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let from = OperationPath::read_from("copy", operation)?;
        let source = from.path("doc is missing from path")?;
        let parent = source.parent(&self.value).ok_or_else(|| from.missing("doc is missing from path"))?;
        let value = pointer::get(parent, source.key())
            .map_err(|error| OperationPath { field: "from", ..from }.failed(error))?;
        let at = OperationPath::read("copy", operation)?;
        let path = at.path("doc is missing destination path")?;
        if path.parent(&self.value).is_none() {
            return Err(at.missing("doc is missing destination path"));
        }
        self.copied_bytes = self.copied_bytes.saturating_add(encoded_size(value));
        if self.copied_bytes > MAX_COPY_BYTES {
            return Err(OperationError::CopyTooLarge { bytes: self.copied_bytes });
        }
        charge(&mut self.budget, value, path.key())?;
        let value = value.clone();
        let parent =
            path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing destination path"))?;
        shift(&mut self.shifted_items, parent)?;
        pointer::add(parent, path.key(), value).map_err(OperationError::InvalidCopyTarget)?;
        self.deepened(path.depth() + self.depth.saturating_sub(source.depth()))
    }

    fn test(&self, operation: &Operation) -> Result<(), OperationError> {
        let at = OperationPath::read("test", operation)?;
        let found = if at.text.is_empty() {
            &self.value
        } else {
            let path = at.path("is missing path")?;
            let parent = path.parent(&self.value).ok_or_else(|| at.missing("is missing path"))?;
            pointer::get(parent, path.key()).map_err(|error| at.failed(error))?
        };
        if found == operation.value() {
            Ok(())
        } else {
            Err(OperationError::TestFailed { path: at.text.to_owned() })
        }
    }

    /// Raises the bound of the nesting depth after adding a value.
    fn deepened(&mut self, depth: usize) -> Result<(), OperationError> {
        self.depth = self.depth.max(depth);
        if self.depth > MAX_DEPTH_UNMEASURED { self.measure() } else { Ok(()) }
    }

    fn measure(&mut self) -> Result<(), OperationError> {
        self.depth = depth(&self.value);
        if self.depth > MAX_DEPTH { Err(OperationError::TooDeep) } else { Ok(()) }
    }
}

/// A path of an operation, with context for errors.
#[derive(Clone, Copy)]
struct OperationPath<'o> {
    operation: &'static str,
    field: &'static str,
    text: &'o str,
}

impl<'o> OperationPath<'o> {
    fn read(operation: &'static str, fields: &'o Operation) -> Result<Self, OperationError> {
        let unreadable = |reason: String| OperationError::UnreadablePath { operation, field: "path", reason };
        match fields.field("path") {
            Some(Value::String(text)) => Ok(Self { operation, field: "path", text }),
            // For these operations the message has no details.
            _ if matches!(operation, "add" | "remove" | "copy") => {
                Err(unreadable("missing value".to_owned()))
            }
            Some(other) => Err(unreadable(not_text(other))),
            None => Err(unreadable("operation missing path field: missing value".to_owned())),
        }
    }

    fn read_from(operation: &'static str, fields: &'o Operation) -> Result<Self, OperationError> {
        let unreadable = |reason: String| OperationError::UnreadablePath { operation, field: "from", reason };
        match fields.field("from") {
            // The messages name the field `path` nevertheless.
            Some(Value::String(text)) => Ok(Self { operation, field: "path", text }),
            Some(other) => Err(unreadable(not_text(other))),
            None => Err(unreadable("operation, missing from field: missing value".to_owned())),
        }
    }

    /// Parses the path; fails for the empty path, which denotes the whole document.
    fn path(&self, missing: &'static str) -> Result<Pointer, OperationError> {
        Pointer::parse(self.text).ok_or_else(|| self.missing(missing))
    }

    fn missing(&self, missing: &'static str) -> OperationError {
        let quoted = matches!(self.operation, "add" | "remove");
        let path = if quoted { format!("\"{}\"", self.text) } else { self.text.to_owned() };
        OperationError::MissingPath { operation: self.operation, missing, path }
    }

    fn failed(&self, error: PointerError) -> OperationError {
        OperationError::InvalidPointer {
            operation: self.operation,
            field: self.field,
            path: self.text.to_owned(),
            error,
        }
    }
}

fn not_text(found: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type string", json_name(found))
}

/// Charges the memory of a value added to the document under a key.
fn charge(budget: &mut DecodeBudget, value: &Value, key: &str) -> Result<(), OperationError> {
    budget.charge(heap_bytes(value))?;
    // The parent may be a list or a map; the first entry of a map is the most expensive case.
    budget.entry(0, key.len())?;
    Ok(())
}

/// Counts the items of a list, all of which may shift when one is inserted or removed.
fn shift(shifted_items: &mut usize, parent: &Value) -> Result<(), OperationError> {
    *shifted_items += parent.as_array().map_or(0, Vec::len);
    if *shifted_items > MAX_SHIFTED_ITEMS { Err(OperationError::TooMuchWork) } else { Ok(()) }
}

/// Returns the encoded size of a copy; an absent value has size 0.
fn encoded_size(value: &Value) -> usize {
    if value.is_null() {
        return 0;
    }
    let mut length = Length(0);
    // Serializing a tree into a counter cannot fail.
    serde_json::to_writer(&mut length, value).map_or(usize::MAX, |()| length.0)
}

/// A writer that counts bytes.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
