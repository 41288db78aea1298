//! Semantic equality of values.

use coracle_meta::quantity::Quantity;
use serde_json::Value;

/// Fields in which `false` equals absent.
const FLAGS: &[&str] = &["hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty"];
/// Fields in which zero equals absent.
const NUMBERS: &[&str] = &["hostPort", "initialDelaySeconds"];

/// Returns true if two values are semantically equal: empty equals absent, and amounts are compared
/// as numbers.
pub(super) fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    is_same_field("", a, b)
}

fn is_same_field(name: &str, old: Option<&Value>, new: Option<&Value>) -> bool {
    let old = old.filter(|value| !means_absent(name, value));
    let new = new.filter(|value| !means_absent(name, value));
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys = old.keys().chain(new.keys());
            keys.all(|key| is_same_field(inherited_name(name, key), old.get(key), new.get(key)))
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            (0..old.len().max(new.len())).all(|index| is_same_field("", old.get(index), new.get(index)))
        }
        (Some(old), Some(new)) => old == new || is_same_amount(name, old, new),
        (None, None) => true,
        _ => false,
    }
}

/// The field that an amount belongs to. In resource lists that is the parent, because keys are names of resources.
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
    fn empty_value_equals_absent_value() {
        let a = json!({"hostNetwork": false, "tolerations": [], "c": [{"limits": {"cpu": "1"}, "x": 1}]});
        let b = json!({"c": [{"limits": {"cpu": "1000m"}, "x": 1}]});
        assert!(is_same(Some(&a), Some(&b)));
        let c = json!({"c": [{"limits": {"cpu": "1"}, "x": 2}]});
        assert!(!is_same(Some(&b), Some(&c)));
    }
}
