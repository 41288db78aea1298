//! Decodes JSON in one pass, directly into the tree of a type.
//!
//! Field names are matched exactly. Unknown fields are dropped, and of duplicate fields the last value counts; both
//! are reported with the messages and paths of kube-apiserver. Encoding needs nothing of this crate: a decoded tree
//! is in its final form.

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

/// The Go type into which kube-apiserver decodes the kind of a body, for error messages.
const TYPE_META: &str = concat!(
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; "#,
    r#"Kind string "json:\"kind,omitempty\"" }"#
);

/// Decodes a body within the memory budget for its size. The caller limits the size.
pub fn decode(body: &[u8], target: Target) -> Result<Decoded, DecodeError> {
    decode_within(body, target, &mut DecodeBudget::for_body(body.len()))
}

/// Decodes a body within a memory budget.
pub fn decode_within(body: &[u8], target: Target, budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    Walk::new(body, budget).run(target)
}

/// Decodes a patch of a built-in type within a memory budget. Numbers such as `1.0` keep their point, as in
/// kube-apiserver, until they are stored in a field.
pub fn decode_patch(body: &[u8], budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    Walk::new(body, budget).with_points().run(Target::Any)
}

/// Conforms a changed tree, such as the result of a patch, to its type.
pub fn conform(object: Value, id: TypeId) -> Result<Decoded, DecodeError> {
    conform_in(Words::Json, object, id)
}

/// Like [`conform`], where kube-apiserver converts the tree directly instead of encoding and decoding it: its
/// messages for type errors differ.
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

/// Encodes a changed object, up to the length that a decoder accepts. `1.0` keeps its point, which an integer field
/// rejects.
fn text_of(object: &Value) -> Result<Vec<u8>, DecodeError> {
    let mut text = LimitedText(Vec::new());
    // Every tree can be encoded, so the only possible error is the length.
    serde_json::to_writer(&mut text, object).map_err(|_| DecodeError::TextTooLong)?;
    Ok(text.0)
}

/// Encodes a YAML document as JSON, up to the length that a decoder accepts, with numbers as Go prints them.
pub(super) fn text_of_yaml(object: &Value) -> Result<Vec<u8>, DecodeError> {
    let mut text = LimitedText(Vec::new());
    go_json::to_writer(&mut text, object).map_err(|_| DecodeError::TextTooLong)?;
    Ok(text.0)
}

/// A buffer that fails to grow beyond [`MAX_JSON_TEXT_BYTES`].
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

/// Decodes JSON that is a bytes field of a protobuf message.
pub(super) fn decode_carried(
    text: &[u8],
    is_raw: bool,
    budget: &mut DecodeBudget,
) -> Result<Value, DecodeError> {
    Walk::new(text, budget).run_carried(is_raw)
}

/// Decodes only `apiVersion` and `kind` of a body, and checks the grammar of the rest.
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

/// The fields found so far, and the first value that is not a string.
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
            // `null` is accepted here; the missing kind is an error of the caller.
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
