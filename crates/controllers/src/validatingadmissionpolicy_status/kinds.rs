//! Resolves the kinds that a policy's rules name.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, ValidatingAdmissionPolicySpec};
use kube::client::APIGroupDiscoveryList;
use kube::core::{GroupVersion, GroupVersionKind};

/// Maximum number of kinds checked per rule: Kubernetes' `maxTypesToCheck`.
const MAX_KINDS: usize = 10;

/// Group, version and resource. An empty group matches all groups, as in Kubernetes' `RESTMapper`.
type Resource = (String, String, String);

/// All served kinds, with their plural and singular resource names.
pub(super) struct ServedKinds(Vec<(GroupVersionKind, [String; 2])>);

impl ServedKinds {
    pub(super) fn new(lists: impl IntoIterator<Item = APIGroupDiscoveryList>) -> Self {
        let mut served = Vec::new();
        for group in lists.into_iter().flat_map(|list| list.items) {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for version in group.versions {
                let version_name = version.version.unwrap_or_default();
                for resource in version.resources {
                    // Objects of a resource may be of a kind in another group, whose OpenAPI document describes them.
                    let kind = resource.response_kind.unwrap_or_default();
                    let kind = GroupVersionKind {
                        group: kind.group.filter(|group| !group.is_empty()).unwrap_or_else(|| name.clone()),
                        version: kind
                            .version
                            .filter(|version| !version.is_empty())
                            .unwrap_or_else(|| version_name.clone()),
                        kind: kind.kind.unwrap_or_default(),
                    };
                    let names =
                        [resource.resource, resource.singular_resource].map(Option::unwrap_or_default);
                    served.push((kind, names));
                }
            }
        }
        Self(served)
    }

    fn kinds(&self, (group, version, resource): &Resource) -> impl Iterator<Item = &GroupVersionKind> {
        let fits = move |kind: &GroupVersionKind, names: &[String; 2]| {
            (group.is_empty() || kind.group == *group)
                && kind.version == *version
                && names.iter().any(|name| name == resource)
        };
        self.0.iter().filter(move |(kind, names)| fits(kind, names)).map(|(kind, _)| kind)
    }
}

/// Resources named by each rule. Rules with wildcards for groups or versions are not checked.
pub(super) fn named_resources(spec: &ValidatingAdmissionPolicySpec) -> Vec<Vec<Resource>> {
    let rules = spec.match_constraints.as_ref().and_then(|constraints| constraints.resource_rules.as_ref());
    rules.into_iter().flatten().map(of_rule).filter(|resources| !resources.is_empty()).collect()
}

fn of_rule(rule: &NamedRuleWithOperations) -> Vec<Resource> {
    let all = |names: &Option<Vec<String>>| {
        let mut names = names.clone().unwrap_or_default();
        names.sort();
        names
    };
    let (groups, versions) = (all(&rule.api_groups), all(&rule.api_versions));
    if groups.iter().chain(&versions).any(|name| name.contains('*')) {
        return Vec::new();
    }
    // Kubernetes' mapper ignores case.
    let mut resources: Vec<String> =
        all(&rule.resources).into_iter().map(|resource| resource.to_lowercase()).collect();
    resources.retain(|resource| !resource.contains(['*', '/']));
    let mut found = Vec::new();
    for group in &groups {
        for version in &versions {
            found.extend(resources.iter().map(|resource| (group.clone(), version.clone(), resource.clone())));
        }
    }
    found
}

/// Served kinds of these resources, sorted by group, version and name.
pub(super) fn resolve(named_resources: &[Vec<Resource>], served: &ServedKinds) -> Vec<GroupVersionKind> {
    let mut found = BTreeSet::new();
    let key = |kind: &GroupVersionKind| (kind.group.clone(), kind.version.clone(), kind.kind.clone());
    for resources in named_resources {
        let kinds: Vec<_> = resources.iter().flat_map(|resource| served.kinds(resource)).collect();
        found.extend(kinds.iter().take(MAX_KINDS).map(|kind| key(kind)));
        // Kubernetes skips the rules after one with too many kinds.
        if kinds.len() >= MAX_KINDS {
            break;
        }
    }
    found.into_iter().map(|(group, version, kind)| GroupVersionKind { group, version, kind }).collect()
}

/// Kind of a policy's parameters, if it has any.
pub(super) fn params(spec: &ValidatingAdmissionPolicySpec) -> Option<GroupVersionKind> {
    let kind = spec.param_kind.as_ref()?;
    let version: GroupVersion = kind.api_version.as_deref()?.parse().ok()?;
    Some(version.with_kind(kind.kind.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn served() -> ServedKinds {
        let list = |group: &str, resources: &[(&str, &str, &str)]| {
            let resources: Vec<Value> = resources
                .iter()
                .map(|(resource, singular, kind)| {
                    json!({
                        "resource": resource, "singularResource": singular,
                        "responseKind": {"group": group, "version": "v1", "kind": kind},
                    })
                })
                .collect();
            let versions = json!([{"version": "v1", "resources": resources}]);
            let group = json!({"metadata": {"name": group}, "versions": versions});
            serde_json::from_value(json!({"items": [group]})).unwrap()
        };
        ServedKinds::new([
            list("", &[("pods", "pod", "Pod"), ("events", "event", "Event")]),
            list("apps", &[("deployments", "deployment", "Deployment")]),
            list("events.k8s.io", &[("events", "event", "Event")]),
        ])
    }

    fn kinds(rules: Value) -> Vec<String> {
        let spec = serde_json::from_value(json!({"matchConstraints": {"resourceRules": rules}})).unwrap();
        let shown = |kind: GroupVersionKind| format!("{}/{} {}", kind.group, kind.version, kind.kind);
        resolve(&named_resources(&spec), &served()).into_iter().map(shown).collect()
    }

    #[test]
    fn only_named_resources_are_resolved() {
        let rule = |group: &str, version: &str, resource: &str| json!([{"apiGroups": [group], "apiVersions": [version], "resources": [resource]}]);
        assert_eq!(kinds(rule("apps", "v1", "deployments")), ["apps/v1 Deployment"]);
        assert_eq!(kinds(rule("apps", "v1", "deployment")), ["apps/v1 Deployment"]);
        assert!(kinds(rule("apps", "v2", "deployments")).is_empty());
        for (group, version, resource) in
            [("*", "v1", "pods"), ("", "*", "pods"), ("", "v1", "*"), ("", "v1", "pods/status")]
        {
            assert!(kinds(rule(group, version, resource)).is_empty());
        }
        // An empty group matches all groups.
        assert_eq!(kinds(rule("", "v1", "events")), ["/v1 Event", "events.k8s.io/v1 Event"]);
    }

    #[test]
    fn too_many_kinds_are_not_checked() {
        let mut rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": []});
        rule["resources"] = json!(vec!["deployments"; MAX_KINDS]);
        let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        assert_eq!(kinds(json!([pods, rule])), ["/v1 Pod", "apps/v1 Deployment"]);
        assert_eq!(kinds(json!([rule, pods])), ["apps/v1 Deployment"]);
    }
}
