//! Selection of the default class for objects that name none.

use std::cmp::Reverse;
use std::sync::Arc;

use coracle_meta::object::Meta;
use serde_json::Value;

/// Returns the class that one of these annotations marks as default: the newest, and among equally new ones the first
/// by name.
pub(super) fn newest_default<'a>(classes: &'a [Arc<Value>], annotations: &[&str]) -> Option<&'a Value> {
    classes
        .iter()
        .map(|class| &**class)
        .filter(|class| annotations.iter().any(|key| Meta::of(class).annotation(key) == Some("true")))
        .max_by_key(|class| {
            let meta = Meta::of(class);
            (meta.creation_timestamp().map(|time| time.0), Reverse(meta.name()))
        })
}

#[cfg(test)]
mod tests {
    use coracle_registry::view;
    use serde_json::json;

    use super::*;

    #[test]
    fn newest_default_class_wins_then_the_first_by_name() {
        let class = |name: &str, time: &str, value: &str| json!({"metadata": {"name": name, "creationTimestamp": time, "annotations": {"default": value}}});
        let classes = [
            class("a", "2024-01-01T00:00:00Z", "true"),
            class("c", "2024-01-02T00:00:00Z", "true"),
            class("b", "2024-01-02T00:00:00Z", "true"),
            class("d", "2024-01-03T00:00:00Z", "false"),
        ]
        .map(Arc::new);
        assert_eq!(newest_default(&classes, &["default"]).map(view::name), Some("b"));
        assert_eq!(newest_default(&classes, &["other"]), None);
    }
}
