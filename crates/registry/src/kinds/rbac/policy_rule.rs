//! Policy rules of roles.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kind::Scope;
use crate::view;

/// Validates the rules of a role.
pub fn validate_all(role: &Value, scope: Scope, errors: &mut ErrorList) {
    let path = Path::root("rules");
    for (index, rule) in view::items(role, &["rules"]).iter().enumerate() {
        validate(rule, scope, &path.index(index), errors);
    }
}

/// Validates a rule of a role of this scope.
pub fn validate(rule: &Value, scope: Scope, path: &Path<'_>, errors: &mut ErrorList) {
    let has = |field: &str| !view::items(rule, &[field]).is_empty();
    if !has("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if let Some(urls) = rule.get("nonResourceURLs").filter(|_| has("nonResourceURLs")) {
        let path = path.child("nonResourceURLs");
        if scope == Scope::Namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, detail));
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, detail));
        }
        return;
    }
    if !has("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.child("apiGroups"), detail));
    }
    if !has("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.child("resources"), detail));
    }
}

/// Samples of rules that must be rejected in a role of any scope.
#[cfg(any(test, feature = "samples"))]
pub(super) fn refused(with: impl Fn(Value) -> Value) -> Vec<crate::samples::Refused> {
    use serde_json::json;

    use crate::samples::Refused;

    let with = |rule: Value| with(json!([rule]));
    vec![
        Refused::new(
            with(json!({"apiGroups": [""], "resources": ["pods"]})),
            "rules[0].verbs",
            "FieldValueRequired",
        ),
        Refused::new(
            with(json!({"verbs": ["get"], "resources": ["pods"]})),
            "rules[0].apiGroups",
            "FieldValueRequired",
        ),
        Refused::new(
            with(json!({"verbs": ["get"], "apiGroups": [""]})),
            "rules[0].resources",
            "FieldValueRequired",
        ),
        Refused::new(
            with(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"], "resources": ["pods"]})),
            "rules[0].nonResourceURLs",
            "FieldValueInvalid",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn non_resource_url_in_namespaced_role_is_rejected() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/x"]});
        let errors = |scope| {
            let mut errors = ErrorList::new();
            validate(&rule, scope, &Path::root("rules").index(0), &mut errors);
            errors.to_string()
        };
        assert_eq!(errors(Scope::Cluster), "");
        assert_eq!(
            errors(Scope::Namespaced),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs"
        );
    }
}
