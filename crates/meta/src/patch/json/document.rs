//! A document while operations are done on it.

use serde_json::Value;

use super::Operation;
use super::place::{self, Path};
use crate::budget::{DecodeBudget, heap_bytes};
use crate::patch::describe::json_name;
use crate::patch::error::{OperationError, PlaceError};
use crate::patch::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_SHIFTED_ITEMS, depth};

/// How deep a document may get between operations before it is measured again: still safe
/// for the recursion that frees it, and so far from [`MAX_DEPTH`] that a patch cannot make
/// us walk the whole document at each operation.
const MAX_DEPTH_UNMEASURED: usize = 2 * MAX_DEPTH;

/// A document, and what was spent on it.
pub(super) struct Document {
    value: Value,
    /// It is nested no deeper than this.
    depth: usize,
    /// The encoded size of all copies.
    copied_bytes: usize,
    /// Memory for the values that operations add and copy.
    budget: DecodeBudget,
    /// Items of lists that moved by one place because of an operation before them.
    shifted_items: usize,
}

impl Document {
    /// A document no deeper than [`MAX_DEPTH`].
    pub(super) fn new(value: Value) -> Self {
        Self { value, depth: MAX_DEPTH, copied_bytes: 0, budget: DecodeBudget::default(), shifted_items: 0 }
    }

    /// The document, after the last operation.
    pub(super) fn finish(mut self) -> Result<Value, OperationError> {
        self.measure()?;
        Ok(self.value)
    }

    /// Does one operation.
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
        let at = At::read("add", operation)?;
        let path = at.path("doc is missing path")?;
        let parent = path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing path"))?;
        charge(&mut self.budget, operation.value(), path.key())?;
        shift(&mut self.shifted_items, parent)?;
        place::add(parent, path.key(), operation.value().clone()).map_err(|error| at.failed(error))?;
        self.deepened(path.depth() + depth(operation.value()))
    }

    fn remove(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let at = At::read("remove", operation)?;
        let path = at.path("doc is missing path")?;
        let parent = path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing path"))?;
        shift(&mut self.shifted_items, parent)?;
        place::remove(parent, path.key()).map_err(|error| at.failed(error))?;
        Ok(())
    }

    fn replace(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let at = At::read("replace", operation)?;
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
        place::replace(parent, path.key(), value.clone()).map_err(|_| at.missing("doc is missing key"))?;
        self.deepened(path.depth() + depth(value))
    }

    fn relocate(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let from = At::read_from("move", operation)?;
        let source = from.path("doc is missing from path")?;
        let parent =
            source.parent_mut(&mut self.value).ok_or_else(|| from.missing("doc is missing from path"))?;
        shift(&mut self.shifted_items, parent)?;
        let value = place::remove(parent, source.key())
            .map_err(|error| At { text: source.key(), ..from }.failed(error))?;
        let at = At::read("move", operation)?;
        let path = at.path("doc is missing destination path")?;
        let parent =
            path.parent_mut(&mut self.value).ok_or_else(|| at.missing("doc is missing destination path"))?;
        charge(&mut self.budget, &Value::Null, path.key())?;
        shift(&mut self.shifted_items, parent)?;
        place::add(parent, path.key(), value).map_err(|error| at.failed(error))?;
        self.deepened(path.depth() + self.depth.saturating_sub(source.depth()))
    }

    fn copy(&mut self, operation: &Operation) -> Result<(), OperationError> {
        let from = At::read_from("copy", operation)?;
        let source = from.path("doc is missing from path")?;
        let parent = source.parent(&self.value).ok_or_else(|| from.missing("doc is missing from path"))?;
        let value =
            place::get(parent, source.key()).map_err(|error| At { field: "from", ..from }.failed(error))?;
        let at = At::read("copy", operation)?;
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
        place::add(parent, path.key(), value).map_err(OperationError::CopyPlace)?;
        self.deepened(path.depth() + self.depth.saturating_sub(source.depth()))
    }

    fn test(&self, operation: &Operation) -> Result<(), OperationError> {
        let at = At::read("test", operation)?;
        let found = if at.text.is_empty() {
            &self.value
        } else {
            let path = at.path("is missing path")?;
            let parent = path.parent(&self.value).ok_or_else(|| at.missing("is missing path"))?;
            place::get(parent, path.key()).map_err(|error| at.failed(error))?
        };
        if found == operation.value() {
            Ok(())
        } else {
            Err(OperationError::TestFailed { path: at.text.to_owned() })
        }
    }

    /// Takes note that something now reaches this deep, at most.
    fn deepened(&mut self, depth: usize) -> Result<(), OperationError> {
        self.depth = self.depth.max(depth);
        if self.depth > MAX_DEPTH_UNMEASURED { self.measure() } else { Ok(()) }
    }

    fn measure(&mut self) -> Result<(), OperationError> {
        self.depth = depth(&self.value);
        if self.depth > MAX_DEPTH { Err(OperationError::TooDeep) } else { Ok(()) }
    }
}

/// A path that an operation names, with what is needed to complain about it.
#[derive(Clone, Copy)]
struct At<'o> {
    operation: &'static str,
    field: &'static str,
    text: &'o str,
}

impl<'o> At<'o> {
    fn read(operation: &'static str, fields: &'o Operation) -> Result<Self, OperationError> {
        let unreadable = |reason: String| OperationError::UnreadablePath { operation, field: "path", reason };
        match fields.field("path") {
            Some(Value::String(text)) => Ok(Self { operation, field: "path", text }),
            // These do not say what is wrong.
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
            // Messages about it call it a path nevertheless.
            Some(Value::String(text)) => Ok(Self { operation, field: "path", text }),
            Some(other) => Err(unreadable(not_text(other))),
            None => Err(unreadable("operation, missing from field: missing value".to_owned())),
        }
    }

    /// The path, unless it is that of the whole document.
    fn path(&self, missing: &'static str) -> Result<Path, OperationError> {
        Path::parse(self.text).ok_or_else(|| self.missing(missing))
    }

    fn missing(&self, missing: &'static str) -> OperationError {
        let quoted = matches!(self.operation, "add" | "remove");
        let path = if quoted { format!("\"{}\"", self.text) } else { self.text.to_owned() };
        OperationError::MissingPath { operation: self.operation, missing, path }
    }

    fn failed(&self, error: PlaceError) -> OperationError {
        OperationError::Place {
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

/// Charges the memory of a value that is put into the document under a key.
fn charge(budget: &mut DecodeBudget, value: &Value, key: &str) -> Result<(), OperationError> {
    budget.charge(heap_bytes(value))?;
    // The place may be in a list or in a map; the first entry of a map costs most.
    budget.entry(0, key.len())?;
    Ok(())
}

/// Counts the items of a list, which may all move when one is inserted or removed.
fn shift(shifted_items: &mut usize, parent: &Value) -> Result<(), OperationError> {
    *shifted_items += parent.as_array().map_or(0, Vec::len);
    if *shifted_items > MAX_SHIFTED_ITEMS { Err(OperationError::TooMuchWork) } else { Ok(()) }
}

/// How many bytes a copy of it adds to a document; an absent value adds none.
fn encoded_size(value: &Value) -> usize {
    if value.is_null() {
        return 0;
    }
    let mut length = Length(0);
    // A tree can be written, and counting never fails.
    serde_json::to_writer(&mut length, value).map_or(usize::MAX, |()| length.0)
}

/// Counts what is written to it.
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
