//! Whether two values mean the same, and if not, in what they differ.

use coracle_meta::quantity::Quantity;
use serde_json::Value;

/// Fields that are `false` when they are absent.
const FLAGS: &[&str] = &["hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty"];
/// Fields that are zero when they are absent.
const NUMBERS: &[&str] = &["hostPort", "initialDelaySeconds"];

/// Whether two values mean the same: empty is as good as absent, and amounts are compared
/// as numbers.
pub(super) fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let mut lines = Vec::new();
    compare("", "", a, b, &mut lines);
    lines.is_empty()
}

/// The differences, a line for each side of each.
pub(super) fn difference(old: Option<&Value>, new: Option<&Value>) -> String {
    let mut lines = Vec::new();
    compare("", "", old, new, &mut lines);
    lines.join("\n")
}

fn compare(path: &str, name: &str, old: Option<&Value>, new: Option<&Value>, lines: &mut Vec<String>) {
    let old = old.filter(|value| !means_absent(name, value));
    let new = new.filter(|value| !means_absent(name, value));
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (key, value) in old {
                let name = inherited_name(name, key);
                compare(&format!("{path}.{key}"), name, Some(value), new.get(key), lines);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                let name = inherited_name(name, key);
                compare(&format!("{path}.{key}"), name, None, Some(value), lines);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(&format!("{path}[{index}]"), "", old.get(index), new.get(index), lines);
            }
        }
        (Some(old), Some(new)) if old == new || is_same_amount(name, old, new) => {}
        (None, None) => {}
        (old, new) => {
            let path = path.trim_start_matches('.');
            lines.extend(old.map(|value| format!("- {path}: {value}")));
            lines.extend(new.map(|value| format!("+ {path}: {value}")));
        }
    }
}

/// Amounts stand under the names of resources, so their field is one step up.
fn inherited_name<'a>(parent: &'a str, key: &'a str) -> &'a str {
    if matches!(parent, "limits" | "requests" | "overhead") { parent } else { key }
}

fn is_same_amount(name: &str, old: &Value, new: &Value) -> bool {
    matches!(name, "limits" | "requests" | "overhead" | "sizeLimit" | "divisor")
        && matches!((Quantity::from_json(old), Quantity::from_json(new)), (Ok(old), Ok(new)) if old == new)
}

fn means_absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set && FLAGS.contains(&name),
        Value::Number(number) => number.as_i64() == Some(0) && NUMBERS.contains(&name),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => {
            fields.is_empty()
                && matches!(name, "limits" | "requests" | "nodeSelector" | "overhead" | "resources")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_is_as_good_as_absent() {
        let a = json!({"hostNetwork": false, "tolerations": [], "c": [{"limits": {"cpu": "1"}, "x": 1}]});
        let b = json!({"c": [{"limits": {"cpu": "1000m"}, "x": 1}]});
        assert!(is_same(Some(&a), Some(&b)));
        let c = json!({"c": [{"limits": {"cpu": "1"}, "x": 2}]});
        assert_eq!(difference(Some(&b), Some(&c)), "- c[0].x: 1\n+ c[0].x: 2");
    }
}
