//! YAML as kubectl and kube-apiserver read it: version 1.1, converted to JSON.
//!
//! The parser handles the grammar; plain scalars are resolved here, because versions of YAML differ in them: `yes` is
//! true, `0755` is 493. Aliases are expanded within a limit.

mod build;
mod faults;
mod resolve;
#[cfg(test)]
mod tests;
mod write;

use serde_json::Value;

use super::{DecodeBudget, DecodeError, Decoded, Target, TypeMeta, json};

/// Decodes a body of one document within the memory budget for its size. The caller limits the size.
pub fn decode(body: &[u8], target: Target) -> Result<Decoded, DecodeError> {
    decode_within(body, target, &mut DecodeBudget::for_body(body.len()))
}

/// Decodes a body of one document within a memory budget, which applies to the tree of the document and then again to
/// the object: the first is freed when the second is built.
pub fn decode_within(body: &[u8], target: Target, budget: &mut DecodeBudget) -> Result<Decoded, DecodeError> {
    let (object, duplicates) = build::document(body, &mut budget.clone())?;
    let text = json::text_of_yaml(&object)?;
    drop(object);
    let mut decoded = json::decode_within(&text, target, budget)?;
    decoded.problems.splice(0..0, duplicates);
    Ok(decoded)
}

/// Decodes only `apiVersion` and `kind` of a body.
pub fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    let (object, _) = build::document(body, &mut DecodeBudget::for_body(body.len()))?;
    json::type_meta(&json::text_of_yaml(&object)?)
}

/// Encodes a tree as one document.
pub fn encode(object: &Value) -> String {
    write::document(object)
}
