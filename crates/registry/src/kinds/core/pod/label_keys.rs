//! Merges `matchLabelKeys` and `mismatchLabelKeys` of pods into the label selectors beside them.

use serde_json::{Value, json};

use crate::kinds::core::pod_spec::defaults::{each, within};

/// Adds a requirement with the pod's own value to each selector that has such keys.
pub(super) fn merge(pod: &mut Value) {
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
    let labels = labels.unwrap_or(Value::Null);
    within(pod, "spec", |spec| {
        within(spec, "affinity", |affinity| {
            for kind in ["podAffinity", "podAntiAffinity"] {
                within(affinity, kind, |affinity| merge_terms(affinity, &labels));
            }
        });
        each(spec, "topologySpreadConstraints", |constraint| {
            merge_keys(constraint, "matchLabelKeys", "In", &labels);
        });
    });
}

fn merge_terms(affinity: &mut Value, labels: &Value) {
    let both = |term: &mut Value| {
        merge_keys(term, "matchLabelKeys", "In", labels);
        merge_keys(term, "mismatchLabelKeys", "NotIn", labels);
    };
    each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", |weighted| {
        within(weighted, "podAffinityTerm", both);
    });
    each(affinity, "requiredDuringSchedulingIgnoredDuringExecution", both);
}

fn merge_keys(term: &mut Value, field: &str, operator: &str, labels: &Value) {
    let keys = term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(value) = labels.get(key) else { continue };
        let requirement = json!({"key": key, "operator": operator, "values": [value]});
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Value::Array(expressions) = expressions {
            expressions.push(requirement);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_become_selector_requirements() {
        let mut pod = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"topologySpreadConstraints": [
                {"matchLabelKeys": ["app", "none"], "labelSelector": {}},
                {"matchLabelKeys": ["app"]}
            ]}
        });
        merge(&mut pod);
        let constraints = &pod["spec"]["topologySpreadConstraints"];
        let expected = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
        assert_eq!(constraints[0]["labelSelector"], expected);
        assert_eq!(constraints[1].get("labelSelector"), None);
    }
}
