//! Success policy of indexed Jobs.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::indexes;
use crate::kinds::apps::checks;
use crate::{internal_types, view};

const MAX_RULES: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

/// Validates the policy of a Job's spec.
pub(super) fn validate(spec: &Value, is_indexed: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = spec.get("successPolicy") else { return };
    let path = path.child("successPolicy");
    let rules = view::items(policy, &["rules"]);
    if !is_indexed {
        let found = internal_types::printed("*@batch.SuccessPolicy", Some(policy));
        errors.push(FieldError::invalid(&path, found, "requires indexed completion mode"));
        return;
    }
    let path = path.child("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&path, detail));
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, checks::count(spec, "completions"), &path.index(index), errors);
    }
}

fn validate_rule(rule: &Value, completions: i64, path: &Path<'_>, errors: &mut ErrorList) {
    let wanted_indexes = rule.get("succeededIndexes").and_then(Value::as_str);
    let wanted_count = view::integer(rule, &["succeededCount"]);
    if wanted_indexes.is_none() && wanted_count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let named = wanted_indexes.map(|indexes| {
        let path = path.child("succeededIndexes");
        validate_indexes(indexes, completions, &path, errors)
    });
    let Some(count) = wanted_count else { return };
    checks::non_negative(rule, "succeededCount", path, errors);
    let path = path.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&path, count, detail));
    }
    if let Some(named) = named.filter(|named| count > *named) {
        let detail = format!(
            "must be less than or equal to {named} (the number of indexes in the specified succeededIndexes \
             field)"
        );
        errors.push(FieldError::invalid(&path, count, detail));
    }
}

/// Validates a set of indexes and returns their number; 0 if it is malformed.
fn validate_indexes(text: &str, completions: i64, path: &Path<'_>, errors: &mut ErrorList) -> i64 {
    if text.len() > MAX_INDEXES_BYTES {
        errors.push(FieldError::too_long(path, MAX_INDEXES_BYTES));
    }
    indexes::count(text, completions).unwrap_or_else(|error| {
        errors.push(FieldError::invalid(path, text, format!("error parsing succeededIndexes: {error}")));
        0
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(rules: Value, is_indexed: bool) -> Vec<String> {
        let spec = json!({"completions": 5, "successPolicy": {"rules": rules}});
        let mut errors = ErrorList::new();
        validate(&spec, is_indexed, &Path::root("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_must_match_the_completions() {
        assert!(check(json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), true).is_empty());
        assert_eq!(
            check(json!([{"succeededIndexes": "0-2", "succeededCount": 6}, {}, {"succeededIndexes": "9"}]), true),
            [
                "[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified \
                 completions)",
                "[0].succeededCount: Invalid value: 6: must be less than or equal to 3 (the number of indexes in \
                 the specified succeededIndexes field)",
                "[1]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "[2].succeededIndexes: Invalid value: \"9\": error parsing succeededIndexes: too large index: \
                 \"9\"",
            ]
            .map(|message| format!("spec.successPolicy.rules{message}"))
        );
        assert_eq!(
            check(json!([{"succeededCount": 1}]), false),
            [
                "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: \
              requires indexed completion mode"
            ]
        );
    }
}
