//! Reads JSON in one pass, straight into the tree of a type.
//!
//! Names of fields are matched exactly. Fields that a type does not have are dropped, and
//! fields that are there twice take the last value; both are reported, with the words and paths
//! upstream uses. Writing needs nothing of this crate: a tree that was read is in its final form.

mod conforming;
mod scan;
mod single;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::io;

use coracle_meta::budget::MAX_JSON_TEXT_BYTES;
use coracle_meta::go_json;
use serde_json::Value;

use super::{DecodeBudget, DecodeError, Decoded, Target, TypeMeta};
use crate::schema::TypeId;
use scan::Scanner;
use walk::Walk;
use words::Words;

pub use conforming::conform_soon;

pub(super) use walk::double;

pub use coracle_meta::patch::MAX_DEPTH;

/// The type upstream reads the kind of a body into, as Go prints it.
const TYPE_META: &str = concat!(
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; "#,
    r#"Kind string "json:\"kind,omitempty\"" }"#
);

/// Reads a body within the budget of its size. It is the caller who limits that size.
pub fn decode(body: &[u8], target: Target) -> Result<Decoded, DecodeError> {
    decode_within(body, target, &mut DecodeBudget::for_body(body.len()))
}

/// Reads a body within a budget.
pub fn decode_within(body: &[u8], target: Target, budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    Walk::new(body, budget).run(target)
}

/// Reads a patch of a built-in type within a budget. Numbers with a point keep it, as they do upstream until they
/// come into a field.
pub fn decode_patch(body: &[u8], budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    Walk::new(body, budget).with_points().run(Target::Any)
}

/// Brings a tree that was changed, by a patch for example, to the form of its type again.
pub fn conform(object: Value, id: TypeId) -> Result<Decoded, DecodeError> {
    conform_in(Words::Json, object, id)
}

/// The same where upstream converts the tree and does not write and read it again: it says in
/// other words what does not fit.
pub fn convert(object: Value, id: TypeId) -> Result<Decoded, DecodeError> {
    conform_in(Words::Tree, object, id)
}

fn conform_in(words: Words, object: Value, id: TypeId) -> Result<Decoded, DecodeError> {
    match conform_soon(object, id) {
        Ok(object) => Ok(Decoded { object, problems: Vec::new() }),
        Err(object) => {
            let text = text_of(&object)?;
            drop(object);
            Walk::new(&text, &mut DecodeBudget::default()).with_words(words).run(Target::Type(id))
        }
    }
}

/// Writes the text of a changed object, up to the length that a decoder reads. `1.0` keeps its point, which a field
/// of integers rejects.
fn text_of(object: &Value) -> Result<Vec<u8>, DecodeError> {
    let mut text = LimitedText(Vec::new());
    // A tree can be written, so the only fault is the length.
    serde_json::to_writer(&mut text, object).map_err(|_| DecodeError::TextTooLong)?;
    Ok(text.0)
}

/// Writes the text of a YAML document, up to the length that a decoder reads, with numbers as Go prints them.
pub(super) fn text_of_yaml(object: &Value) -> Result<Vec<u8>, DecodeError> {
    let mut text = LimitedText(Vec::new());
    go_json::to_writer(&mut text, object).map_err(|_| DecodeError::TextTooLong)?;
    Ok(text.0)
}

/// Text that fails to grow beyond [`MAX_JSON_TEXT_BYTES`].
struct LimitedText(Vec<u8>);

impl io::Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_JSON_TEXT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the JSON that a protobuf message carries as bytes.
pub(super) fn decode_carried(
    text: &[u8],
    is_raw: bool,
    budget: &mut DecodeBudget,
) -> Result<Value, DecodeError> {
    Walk::new(text, budget).run_carried(is_raw)
}

/// Reads only which kind a body says it is. The rest is checked to be JSON.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let mut reading = MetaReading::default();
    let message = match reading.run(&mut Scanner::new(body)) {
        Ok(()) => reading.misfit,
        Err(error) => Some(error.to_string()),
    };
    match message {
        None => Ok(reading.found),
        Some(message) => {
            let message = format!("couldn't get version/kind; json parse error: {message}");
            Err(DecodeError::Value { message })
        }
    }
}

/// The kind as far as it was read, and the first value in its place that is no text.
#[derive(Default)]
struct MetaReading {
    found: TypeMeta,
    misfit: Option<String>,
}

impl MetaReading {
    fn run(&mut self, scanner: &mut Scanner<'_>) -> Result<(), DecodeError> {
        scanner.skip_space();
        if scanner.peek() == Some(b'{') {
            scanner.object(|scanner, key| self.field(scanner, &key))?;
        } else {
            let value = scanner.skip_value()?;
            // No body at all says nothing, which is not wrong yet.
            self.misfit = (value != "null")
                .then(|| format!("json: cannot unmarshal {value} into Go value of type {TYPE_META}"));
        }
        scanner.end()
    }

    fn field(&mut self, scanner: &mut Scanner<'_>, key: &str) -> Result<(), DecodeError> {
        let target = match key {
            "apiVersion" => &mut self.found.api_version,
            "kind" => &mut self.found.kind,
            _ => return scanner.skip_value().map(drop),
        };
        if scanner.peek() == Some(b'"') {
            *target = scanner.string()?.into_owned();
            return Ok(());
        }
        let value = scanner.skip_value()?;
        if value != "null" && self.misfit.is_none() {
            let message =
                format!("json: cannot unmarshal {value} into Go struct field .{key} of type string");
            self.misfit = Some(message);
        }
        Ok(())
    }
}
