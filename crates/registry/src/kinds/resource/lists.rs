//! Lists and sets of limited size.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

/// Validates the items of a list. If there are more than `max`, no item is validated.
pub(super) fn check_list(
    items: &[Value],
    max: usize,
    path: &Path<'_>,
    errors: &mut ErrorList,
    mut check: impl FnMut(&Value, &Path<'_>, &mut ErrorList),
) -> bool {
    if items.len() > max {
        errors.push(FieldError::too_many(path, items.len(), max));
        return false;
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &path.index(index), errors);
    }
    true
}

/// Like [`check_list`], and rejects items with equal keys.
pub(super) fn check_set<'a>(
    items: &'a [Value],
    max: usize,
    path: &Path<'_>,
    errors: &mut ErrorList,
    key: impl Fn(&'a Value) -> String,
    check: impl FnMut(&Value, &Path<'_>, &mut ErrorList),
) {
    if !check_list(items, max, path, errors, check) {
        return;
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        if seen.contains(&key) {
            errors.push(FieldError::duplicate(&path.index(index), key));
        } else {
            seen.insert(key);
        }
    }
}

/// Key of an item that is a text.
pub(super) fn text_key(item: &Value) -> String {
    item.as_str().unwrap_or_default().to_owned()
}
