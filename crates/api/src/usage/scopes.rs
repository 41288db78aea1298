//! Scopes of resource quotas.

use coracle_meta::view;
use serde_json::Value;

use super::qos_class;

/// A requirement of a scope on an object.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    scope: &'a str,
    operator: &'a str,
    values: &'a [Value],
}

/// The requirements of a quota's scopes.
pub(super) fn demands(quota: &Value) -> impl Iterator<Item = Demand<'_>> {
    let scopes = view::items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = scopes.map(|scope| Demand { scope, operator: "Exists", values: &[] });
    let selected = view::items(quota, &["spec", "scopeSelector", "matchExpressions"]);
    plain.chain(selected.iter().map(|selector| Demand {
        scope: view::text(selector, &["scopeName"]),
        operator: view::text(selector, &["operator"]),
        values: view::items(selector, &["values"]),
    }))
}

impl Demand<'_> {
    pub(super) fn fits_pod(self, pod: &Value) -> bool {
        match self.scope {
            "Terminating" => is_terminating(pod),
            "NotTerminating" => !is_terminating(pod),
            "BestEffort" => qos_class(pod) == "BestEffort",
            "NotBestEffort" => qos_class(pod) != "BestEffort",
            "PriorityClass" => {
                let class = view::text(pod, &["spec", "priorityClassName"]);
                self.selects(Some(class).filter(|class| !class.is_empty()))
            }
            "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
            _ => false,
        }
    }

    pub(super) fn fits_claim(self, claim: &Value) -> bool {
        if self.scope != "VolumeAttributesClass" {
            return false;
        }
        let classes = attributes_classes(claim);
        match classes.is_empty() {
            true => self.selects(None),
            false => classes.into_iter().any(|class| self.selects(Some(class))),
        }
    }

    fn selects(self, found: Option<&str>) -> bool {
        let is_listed = || found.is_some_and(|found| self.values.iter().any(|value| value == found));
        match self.operator {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    }
}

/// Whether a pod is bound to end by itself: it has an active deadline.
pub fn is_terminating(pod: &Value) -> bool {
    view::integer(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

fn looks_into_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !view::items(term, &["namespaces"]).is_empty() || view::at(term, &["namespaceSelector"]).is_some()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let path = |list| ["spec", "affinity", affinity, list];
        let required = view::items(pod, &path("requiredDuringSchedulingIgnoredDuringExecution"));
        let preferred = view::items(pod, &path("preferredDuringSchedulingIgnoredDuringExecution"));
        let weighted = preferred.iter().filter_map(|term| view::at(term, &["podAffinityTerm"]));
        required.iter().chain(weighted).any(crosses)
    })
}

/// The requested, current and target VolumeAttributesClass of a claim.
pub fn attributes_classes(claim: &Value) -> Vec<&str> {
    let wanted = view::text(claim, &["spec", "volumeAttributesClassName"]);
    let current = view::text(claim, &["status", "currentVolumeAttributesClassName"]);
    let path = ["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"];
    let mut classes = vec![wanted, current, view::text(claim, &path)];
    classes.retain(|class| !class.is_empty());
    classes.sort_unstable();
    classes.dedup();
    classes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(quota: Value, pod: Value) -> bool {
        demands(&json!({"spec": quota})).all(|demand| demand.fits_pod(&json!({"spec": pod})))
    }

    #[test]
    fn scopes_of_pods() {
        let scope = |name: &str| json!({"scopes": [name]});
        let ending = json!({"activeDeadlineSeconds": 5});
        assert!(fits(scope("Terminating"), ending.clone()) && !fits(scope("NotTerminating"), ending));
        assert!(!fits(scope("Terminating"), json!({})) && fits(scope("NotTerminating"), json!({})));
        let asking = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        assert!(fits(scope("NotBestEffort"), asking.clone()) && !fits(scope("BestEffort"), asking));
        assert!(fits(scope("BestEffort"), json!({"containers": [{}]})));
        let term = json!({"podAffinityTerm": {"namespaces": ["x"]}});
        let affine = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}});
        assert!(fits(scope("CrossNamespacePodAffinity"), affine));
        assert!(!fits(scope("CrossNamespacePodAffinity"), json!({"affinity": {}})));
        assert!(fits(json!({}), json!({})));
    }

    #[test]
    fn priority_classes_are_selected() {
        let check = |operator: &str, class: Value| {
            let selector = json!({"scopeName": "PriorityClass", "operator": operator, "values": ["high"]});
            let quota = json!({"scopeSelector": {"matchExpressions": [selector]}});
            fits(quota, json!({"priorityClassName": class}))
        };
        let high = || json!("high");
        assert!(check("In", high()) && !check("In", json!("low")) && !check("In", Value::Null));
        assert!(!check("NotIn", high()) && check("NotIn", json!("low")) && check("NotIn", Value::Null));
        assert!(check("Exists", high()) && !check("Exists", Value::Null));
        assert!(!check("DoesNotExist", high()) && check("DoesNotExist", Value::Null));
    }

    #[test]
    fn claim_counts_for_current_and_target_class() {
        let selector = json!({"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]});
        let quota = json!({"spec": {"scopeSelector": {"matchExpressions": [selector]}}});
        let fits = |claim: Value| demands(&quota).all(|demand| demand.fits_claim(&claim));
        assert!(fits(json!({"spec": {"volumeAttributesClassName": "gold"}})));
        assert!(fits(
            json!({"spec": {"volumeAttributesClassName": "x"}, "status": {"currentVolumeAttributesClassName": "gold"}})
        ));
        assert!(!fits(json!({"spec": {}})));
    }
}
