//! How much a patch may ask for.
//!
//! A patch is a small program given by a stranger: it may be nested so deep that walking it
//! exhausts the stack, or copy what it copied before. Each such growth has its limit here.
//! The size of bodies and of stored objects is limited where they are read and written.

use serde_json::Value;

use super::error::PatchError;

/// How deep lists and maps may be nested in an object or a patch, as in kube-apiserver.
///
/// It is what the decoders of bodies accept, so that objects that can be created can be patched, except for the last
/// few levels, which managedFields add to those of the object. All recursion over values is bounded by it, and needs a
/// larger stack than threads have: `coracle_base::deep_stack`.
pub const MAX_DEPTH: usize = 10_000;

/// How many operations a JSON patch may have, as in kube-apiserver.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// How many bytes the copy operations of one JSON patch may add together, as in
/// kube-apiserver: as much as a request body may hold.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// How many items of lists all operations of one JSON patch may move by one place. Inserting at the beginning of a
/// list moves all its items: 10 000 insertions into 700 000 numbers, which fit into one object, would move 200 GB.
/// This number moves 640 MB, in about 100 ms; what moves more is rejected with 413.
pub const MAX_SHIFTED_ITEMS: usize = 20_000_000;

/// How deep lists and maps are nested; a scalar has depth 0.
///
/// It does not recurse, for it is what decides whether recursion is safe.
pub(super) fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut pending = vec![(value, 0)];
    while let Some((value, above)) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, above + 1))),
            Value::Object(fields) => pending.extend(fields.values().map(|field| (field, above + 1))),
            _ => {
                deepest = deepest.max(above);
                continue;
            }
        }
        deepest = deepest.max(above + 1);
    }
    deepest
}

/// Refuses what is nested too deep.
pub(super) fn check_depth(value: &Value) -> Result<(), PatchError> {
    if depth(value) > MAX_DEPTH { Err(PatchError::TooDeep) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_json;
    use crate::testing::on_large_stack;
    use serde_json::json;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, level| match level % 2 {
            0 => Value::Array(vec![inner]),
            _ => [("a".to_owned(), inner)].into_iter().collect(),
        })
    }

    #[test]
    fn depth_counts_lists_and_maps() {
        assert_eq!(depth(&json!("a")), 0);
        assert_eq!(depth(&json!([])), 1);
        assert_eq!(depth(&json!({"a": [1], "b": {}})), 2);
        on_large_stack(|| assert_eq!(depth(&nested(2 * MAX_DEPTH)), 2 * MAX_DEPTH));
    }

    #[test]
    fn the_deepest_value_allowed_can_be_read_back() {
        on_large_stack(|| {
            let text = nested(MAX_DEPTH).to_string();
            assert_eq!(go_json::from_stored(text.as_bytes()).unwrap(), nested(MAX_DEPTH));
            assert!(check_depth(&nested(MAX_DEPTH)).is_ok());
            assert_eq!(check_depth(&nested(MAX_DEPTH + 1)), Err(PatchError::TooDeep));
        });
    }
}
