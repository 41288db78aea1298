//! Limits of patches.
//!
//! A patch is untrusted input: it may be nested so deeply that recursion exhausts the stack, or
//! copy its own copies. Each such growth is limited here. The sizes of bodies and of stored objects
//! are limited where they are read and written.

use serde_json::Value;

use super::error::PatchError;

/// Maximum nesting depth of lists and maps in an object or a patch, the same as in kube-apiserver.
///
/// The decoders of request bodies accept the same depth, so that every object that can be created
/// can be patched, except for the last few levels, which managedFields add to those of the object.
/// It bounds all recursion over values, which therefore needs a larger stack than threads have:
/// `coracle_base::deep_stack`.
pub const MAX_DEPTH: usize = 10_000;

/// Maximum number of operations of a JSON patch, the same as in kube-apiserver.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Maximum total size of the copy operations of a JSON patch, the same as in kube-apiserver: the
/// limit of a request body.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// Maximum number of list items that all operations of a JSON patch may shift. Inserting at the
/// beginning of a list shifts all its items: 10 000 insertions into 700 000 numbers, which fit into
/// one object, would move 200 GB. This limit allows 640 MB, which take about 100 ms; a patch that
/// exceeds it is rejected with 413.
pub const MAX_SHIFTED_ITEMS: usize = 20_000_000;

/// Returns the nesting depth of a value; a scalar has depth 0.
///
/// Does not recurse, because it decides whether recursion is safe.
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

/// Rejects values that are nested too deeply.
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
    fn depth_counts_nested_lists_and_maps() {
        assert_eq!(depth(&json!("a")), 0);
        assert_eq!(depth(&json!([])), 1);
        assert_eq!(depth(&json!({"a": [1], "b": {}})), 2);
        on_large_stack(|| assert_eq!(depth(&nested(2 * MAX_DEPTH)), 2 * MAX_DEPTH));
    }

    #[test]
    fn value_of_max_depth_round_trips() {
        on_large_stack(|| {
            let text = nested(MAX_DEPTH).to_string();
            assert_eq!(go_json::from_stored(text.as_bytes()).unwrap(), nested(MAX_DEPTH));
            assert!(check_depth(&nested(MAX_DEPTH)).is_ok());
            assert_eq!(check_depth(&nested(MAX_DEPTH + 1)), Err(PatchError::TooDeep));
        });
    }
}
