//! Detection of no-op writes.
//!
//! A write that changes only timestamps in `managedFields` is a no-op: nothing is stored, and
//! watchers get no event.

use serde_json::{Map, Value};

/// Returns true if two objects are equal except for timestamps in `metadata.managedFields`.
pub fn unchanged_but_for_times(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => equal_except(old, new, "metadata", equal_metadata),
        _ => old == new,
    }
}

/// Copies the timestamps of the entries in `old` to `new` if nothing else differs. Returns true if
/// it did.
pub fn restore_times(old: &Value, new: &mut Value) -> bool {
    if !unchanged_but_for_times(old, new) {
        return false;
    }
    let path = ["metadata", "managedFields"];
    let old = path.iter().try_fold(old, |value, name| value.get(name));
    let new = path.iter().try_fold(new, |value, name| value.get_mut(name));
    if let (Some(old), Some(new)) = (old, new) {
        new.clone_from(old);
    }
    true
}

fn equal_metadata(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => equal_except(old, new, "managedFields", equal_entries),
        _ => old == new,
    }
}

fn equal_entries(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal_entry(old, new))
        }
        _ => old == new,
    }
}

fn equal_entry(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let without_time =
                |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
            without_time(old) == without_time(new)
                && old.iter().all(|(name, value)| name == "time" || new.get(name) == Some(value))
        }
        _ => old == new,
    }
}

/// Compares two maps, one field with `rule` instead of `==`.
fn equal_except(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    except: &str,
    rule: fn(&Value, &Value) -> bool,
) -> bool {
    old.len() == new.len()
        && old.iter().all(|(name, old)| match new.get(name) {
            Some(new) if name == except => rule(old, new),
            Some(new) => old == new,
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(time: Option<&str>, fields: &str) -> Value {
        let mut entry = json!({"manager": "m", "fieldsV1": {fields: {}}});
        if let Some(time) = time {
            entry["time"] = json!(time);
        }
        json!({"metadata": {"name": "a", "managedFields": [entry]}, "spec": {}})
    }

    #[test]
    fn objects_that_differ_only_in_times_are_equal() {
        let old = object(Some("1"), "f:a");
        for (new, equal) in [
            (object(Some("2"), "f:a"), true),
            (object(None, "f:a"), true),
            (object(Some("1"), "f:b"), false),
            (json!({"metadata": old["metadata"], "spec": {"a": 1}}), false),
            (json!({"metadata": {"name": "a"}, "spec": {}}), false),
            (json!({"metadata": {"name": "a", "managedFields": [], "time": 1}, "spec": {}}), false),
            (json!(3), false),
        ] {
            assert_eq!(unchanged_but_for_times(&old, &new), equal, "{new}");
            assert_eq!(unchanged_but_for_times(&new, &old), equal, "{new}");
            let mut restored = new.clone();
            assert_eq!(restore_times(&old, &mut restored), equal);
            assert_eq!(restored == old, equal);
        }
    }
}
