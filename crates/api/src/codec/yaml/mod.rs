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

use super::{DecodeBudget, DecodeError, Decoded, Target, TypeMeta, json};

/// Reads a body of one document within the budget of its size. It is the caller who limits that size.
pub fn decode(body: &[u8], target: Target) -> Result<Decoded, DecodeError> {
    decode_within(body, target, &mut DecodeBudget::for_body(body.len()))
}

/// Reads a body of one document within a budget, which holds for the tree of the document and then again for the
/// object: the first is gone when the second is built.
pub fn decode_within(body: &[u8], target: Target, budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    let (object, duplicates) = build::document(body, &mut budget.clone())?;
    let text = json::text_of_yaml(&object)?;
    drop(object);
    let mut decoded = json::decode_within(&text, target, budget)?;
    decoded.problems.splice(0..0, duplicates);
    Ok(decoded)
}

/// Reads only which kind a body says it is.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let (object, _) = build::document(body, &mut DecodeBudget::for_body(body.len()))?;
    json::type_meta(&json::text_of_yaml(&object)?)
}

/// Writes a tree as one document.
pub fn encode(object: &Value) -> String {
    write::document(object)
}
