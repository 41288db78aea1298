//! YAML as kubectl and upstream understand it: version 1.1, by way of JSON.
//!
//! The grammar is the parser's; what a plain scalar means is decided here, since that is where
//! versions of YAML differ: `yes` is true, `0755` is 493. Anchors are expanded within a limit.

mod build;
mod faults;
mod resolve;
#[cfg(test)]
mod tests;
mod write;

use serde_json::Value;

use super::{DecodeError, Decoded, Target, TypeMeta, json};

/// Reads a body of one document. It is the caller who limits its size.
pub fn decode(body: &[u8], target: Target) -> Result<Decoded, DecodeError> {
    let (object, duplicates) = build::document(body)?;
    let text =
        serde_json::to_vec(&object).map_err(|error| DecodeError::Yaml { message: error.to_string() })?;
    let mut decoded = json::decode(&text, target)?;
    decoded.problems.splice(0..0, duplicates);
    Ok(decoded)
}

/// Reads only which kind a body says it is.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let (object, _) = build::document(body)?;
    json::type_meta(object.to_string().as_bytes())
}

/// Writes a tree as one document.
pub fn encode(object: &Value) -> String {
    write::document(object)
}
