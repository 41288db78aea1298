//! IntOrString values that are a number or a percentage, such as `maxUnavailable`.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;

/// Requires a non-negative number or a percentage.
pub fn validate(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::String(text) => {
            for message in name::percent(text) {
                errors.push(FieldError::invalid(path, BadValue::named(text), message));
            }
        }
        _ => rules::not_negative(path, value.as_i64(), errors),
    }
}

/// Rejects a percentage above 100.
pub fn validate_at_most_100_percent(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if percent(value).is_some_and(|percent| percent > 100) {
        let found = BadValue::json(value);
        errors.push(FieldError::invalid(path, found, "must not be greater than 100%"));
    }
}

/// The number, with or without the percent sign.
pub fn number(value: &Value) -> i64 {
    match value {
        // A string without percent sign may still be a number.
        Value::String(text) => percent(value).unwrap_or_else(|| text.parse().unwrap_or(0)),
        other => other.as_i64().unwrap_or(0),
    }
}

fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| name::percent(text).is_empty())?;
    // Only digits, so a number that overflows is just too large.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_percentages_are_validated() {
        assert_eq!(number(&json!(3)), 3);
        assert_eq!(number(&json!("25%")), 25);
        assert_eq!(number(&json!("25")), 25);
        assert_eq!(number(&json!("x")), 0);
        for (value, expected) in [
            (json!("101%"), "a: Invalid value: \"101%\": must not be greater than 100%"),
            (json!(-1), "a: Invalid value: -1: must be greater than or equal to 0"),
            (json!(101), ""),
            (json!("100%"), ""),
        ] {
            let mut errors = ErrorList::new();
            validate(&value, &Path::root("a"), &mut errors);
            validate_at_most_100_percent(&value, &Path::root("a"), &mut errors);
            assert_eq!(errors.to_string(), expected);
        }
        let mut errors = ErrorList::new();
        validate(&json!("5"), &Path::root("a"), &mut errors);
        assert!(errors.to_string().contains("a valid percent string"), "{errors}");
    }
}
