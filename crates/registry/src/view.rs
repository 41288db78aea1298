//! Accessors for object fields that may be absent, and their formats in tables.

use coracle_meta::table::translate_timestamp_since;
use coracle_meta::time::Time;
pub use coracle_meta::view::{at, fields, integer, is_true, items, name, set_default, text};
use serde_json::Value;

/// Time since the timestamp at a path, as tables show it; `<unknown>` if there is none.
pub fn age_since(object: &Value, path: &[&str], now: i64) -> String {
    let then = at(object, path).and_then(Value::as_str).and_then(|text| text.parse::<Time>().ok());
    translate_timestamp_since(then, Time(now))
}

/// Age of an object, as tables show it.
pub fn age(object: &Value, now: i64) -> Value {
    age_since(object, &["metadata", "creationTimestamp"], now).into()
}

/// The cells of a kind whose only columns are name and age.
pub fn name_and_age(object: &Value, now: i64) -> Vec<Value> {
    vec![name(object).into(), age(object, now)]
}
