//! Hashes of pod templates.

use coracle_meta::name::ALPHABET;

use crate::view::PodTemplate;

/// FNV-1a with 32 bits.
const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// Short hash of a template, the same for equal ones. Different templates rarely collide; `collision_count` resolves
/// that. It looks like Kubernetes' hash, but is computed from other bytes.
pub(crate) fn template_hash(template: &PodTemplate, collision_count: Option<i32>) -> String {
    // No part contains this byte, so that concatenated parts cannot be confused.
    let separated = template.parts().flat_map(|part| part.bytes().chain([0xff]));
    let count = collision_count.map(i32::to_le_bytes).into_iter().flatten();
    let hash = separated.chain(count).fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
    safe_encode(&hash.to_string())
}

/// Encodes digits with letters that form no words.
fn safe_encode(digits: &str) -> String {
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn equal_templates_have_equal_hashes_and_collision_count_changes_them() {
        let template = |value: Value| -> PodTemplate { serde_json::from_value(value).unwrap() };
        let first = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1, "y": []}});
        let same = json!({"spec": {"x": 1}, "metadata": {"labels": {"a": "b"}}});
        let other = json!({"spec": {"x": 2}, "metadata": {"labels": {"a": "b"}}});
        let hash = |value: &Value, count| template_hash(&template(value.clone()), count);
        assert_eq!(hash(&first, None), hash(&same, None));
        assert_ne!(hash(&first, None), hash(&other, None));
        assert_ne!(hash(&first, None), hash(&first, Some(0)));
        assert_ne!(hash(&first, Some(0)), hash(&first, Some(1)));
        assert!(hash(&first, None).len() <= 10);
        // Kubernetes' result for these digits.
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }
}
