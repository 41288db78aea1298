//! Aggregates ClusterRoles: a ClusterRole with an aggregation rule gets exactly the rules of all roles that it
//! selects by label.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule};
use kube::api::{Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Registration, Settings};

/// Field manager of the aggregated rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Page size of lists, to keep responses small: a cluster starts with about seventy roles.
const PAGE: u32 = 16;

/// Index of the aggregated roles, under one value.
const AGGREGATED: &str = "aggregated";

pub(crate) const REGISTRATION: Registration = Registration { name: MANAGER, register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let roles = manager.informer::<Role>(Selection::of::<ClusterRole>().in_pages_of(PAGE));
    let objects = Objects::of::<ClusterRole>(manager.client());
    roles.store().add_index(AGGREGATED, |role| role.selectors.iter().map(|_| String::new()).collect());
    let known = roles.store().clone();
    let controller = Controller::new(REGISTRATION.name, Aggregation { objects, roles: roles.clone() })
        .queue_name("ClusterRoleAggregator")
        .watches(&roles, move |change| {
            to_enqueue(change, &known.by_index(AGGREGATED, change.key.cluster(), ""))
        });
    manager.add(controller);
}

/// View of a ClusterRole with the fields needed for aggregation.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
struct Role {
    metadata: Metadata,
    labels: BTreeMap<String, String>,
    /// Selectors of the aggregation rule; `None` if the role has rules of its own.
    selectors: Option<Vec<Selector>>,
    /// As JSON, normalized so that equal rules have equal text: trees would take many times the memory.
    rules: Vec<Box<str>>,
}

/// The wire format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whole {
    metadata: WholeMetadata,
    aggregation_rule: Option<AggregationRule>,
    rules: Option<Vec<PolicyRule>>,
}

/// Field by field: with `serde(flatten)` all unneeded fields, such as managedFields, would be buffered in memory
/// first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WholeMetadata {
    name: Box<str>,
    resource_version: Box<str>,
    labels: Option<BTreeMap<String, String>>,
}

impl From<Whole> for Role {
    fn from(whole: Whole) -> Self {
        let selectors = whole.aggregation_rule.map(|rule| {
            // Validation rejects invalid selectors.
            let selectors = rule.cluster_role_selectors.unwrap_or_default().into_iter();
            selectors.filter_map(|selector| selector.try_into().ok()).collect()
        });
        let WholeMetadata { name, resource_version, labels } = whole.metadata;
        let metadata = Metadata { name, resource_version, ..Metadata::default() };
        let rules = whole.rules.unwrap_or_default().into_iter().map(text).collect();
        Self { metadata, labels: labels.unwrap_or_default(), selectors, rules }
    }
}

impl View for Role {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Role {
    fn selects(&self, other: &Self) -> bool {
        self.selectors.iter().flatten().any(|selector| selector.matches(&other.labels))
    }
}

/// A rule as JSON. An empty list equals a missing one.
fn text(rule: PolicyRule) -> Box<str> {
    let filled = |list: Option<Vec<String>>| list.filter(|list| !list.is_empty());
    let rule = PolicyRule {
        api_groups: filled(rule.api_groups),
        non_resource_urls: filled(rule.non_resource_urls),
        resource_names: filled(rule.resource_names),
        resources: filled(rule.resources),
        verbs: rule.verbs,
    };
    serde_json::to_string(&rule).unwrap_or_default().into()
}

/// Roles to reconcile after a change: the role itself, if it is aggregated, and those that select it or did.
fn to_enqueue(change: &Change<Role>, aggregated: &[Arc<Role>]) -> Vec<ObjectKey> {
    let states: Vec<&Role> = [&change.old, &change.new].into_iter().flatten().map(|role| &**role).collect();
    let is_concerned = |role: &Role| {
        let itself = &*role.metadata.name == change.key.name();
        itself || states.iter().any(|state| role.selects(state))
    };
    aggregated
        .iter()
        .filter(|role| is_concerned(role))
        .map(|role| ObjectKey::cluster_wide(change.key.cluster().clone(), &*role.metadata.name))
        .collect()
}

/// The rules that a role should have; `None` if it has them, or is not aggregated.
fn plan(role: &Role, all: &[Arc<Role>]) -> Option<Vec<Box<str>>> {
    let mut others: Vec<_> = all.iter().filter(|other| other.metadata.name != role.metadata.name).collect();
    others.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let mut rules: Vec<Box<str>> = Vec::new();
    for selector in role.selectors.as_ref()? {
        let selected = others.iter().filter(|other| selector.matches(&other.labels));
        for rule in selected.flat_map(|other| &other.rules) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    (rules != role.rules).then_some(rules)
}

/// The apply configuration that gives a role these rules.
fn configuration(role: &Role, uid: &str, rules: &[Box<str>]) -> Value {
    let mut configuration = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        // The uid prevents recreating a deleted role.
        "metadata": {"name": role.metadata.name, "uid": uid},
    });
    if !rules.is_empty() {
        let rules = rules.iter().filter_map(|rule| serde_json::from_str::<Value>(rule).ok());
        configuration["rules"] = rules.collect();
    }
    configuration
}

struct Aggregation {
    objects: Objects,
    roles: Informer<Role>,
}

impl Reconcile for Aggregation {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(role) = self.roles.store().get(key) else { return Ok(Action::AwaitChange) };
        let all = self.roles.store().in_cluster(key.cluster());
        let Some(rules) = plan(&role, &all) else { return Ok(Action::AwaitChange) };
        // Events for bootstrap objects are shared by all clusters, but the objects have a uid per cluster.
        let Some(now) = self.objects.get::<Written>(key).await? else { return Ok(Action::AwaitChange) };
        let configuration = Patch::Apply(configuration(&role, &now.metadata.uid, &rules));
        let params = PatchParams::apply(MANAGER).force();
        match self.objects.patch::<Written>(key, &params, &configuration).await {
            // It has been deleted or replaced, which enqueues the key again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::AwaitChange),
            answer => answer.map(|_| Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    fn role(name: &str, labels: Value, selectors: Value, rules: Value) -> Arc<Role> {
        let aggregation = (!selectors.is_null()).then(|| json!({"clusterRoleSelectors": selectors}));
        let object = json!({
            "metadata": {"name": name, "labels": labels},
            "aggregationRule": aggregation,
            "rules": rules,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn rule(resource: &str) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
    }

    fn part(name: &str, label: &str, resources: &[&str]) -> Arc<Role> {
        let rules: Vec<_> = resources.iter().map(|resource| rule(resource)).collect();
        role(name, json!({label: "true"}), Value::Null, json!(rules))
    }

    fn whole(selectors: Value, rules: Value) -> Arc<Role> {
        role("whole", json!({"a": "true"}), selectors, rules)
    }

    fn resources(rules: &[Box<str>]) -> Vec<String> {
        let rules = rules.iter().map(|rule| serde_json::from_str::<PolicyRule>(rule).unwrap());
        rules.map(|rule| rule.resources.unwrap_or_default().concat()).collect()
    }

    #[test]
    fn rules_are_aggregated_in_order_of_selectors_and_names() {
        let selectors = json!([
            {"matchLabels": {"b": "true"}},
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["true"]}]},
        ]);
        let whole = whole(selectors, json!([rule("own")]));
        let parts = [
            part("z", "a", &["pods", "nodes"]),
            part("y", "a", &["secrets", "pods"]),
            part("x", "b", &["nodes"]),
            part("w", "c", &["leases"]),
            Arc::clone(&whole),
        ];
        let rules = plan(&whole, &parts).unwrap();
        assert_eq!(resources(&rules), ["nodes", "secrets", "pods"], "and none of its own");
        let applied = configuration(&whole, "u", &rules);
        assert_eq!(applied["rules"], json!([rule("nodes"), rule("secrets"), rule("pods")]));
        assert_eq!(applied["metadata"], json!({"name": "whole", "uid": "u"}));
    }

    #[test]
    fn matching_rules_are_left_alone() {
        let selectors = json!([{"matchLabels": {"a": "true"}}]);
        let written = json!({
            "resources": ["pods"], "apiGroups": [""], "verbs": ["get"], "resourceNames": [], "nonResourceURLs": null,
        });
        assert_eq!(plan(&whole(selectors.clone(), json!([written])), &[part("x", "a", &["pods"])]), None);
        assert_eq!(plan(&whole(selectors, json!([])), &[]), None);
        assert_eq!(plan(&part("x", "a", &["pods"]), &[part("y", "a", &["nodes"])]), None, "no selectors");
    }

    #[test]
    fn role_without_selected_roles_has_no_rules() {
        let whole = whole(json!([{"matchLabels": {"a": "true"}}]), json!([rule("pods")]));
        let rules = plan(&whole, &[part("x", "b", &["pods"])]).unwrap();
        assert!(rules.is_empty());
        assert_eq!(
            configuration(&whole, "u", &rules).get("rules"),
            None,
            "as in Kubernetes, which does not apply the field"
        );
    }

    #[test]
    fn change_enqueues_roles_that_select_the_changed_role() {
        let all = [
            role("by-a", json!({}), json!([{"matchLabels": {"a": "true"}}]), json!([])),
            role("by-b", json!({}), json!([{"matchLabels": {"b": "true"}}]), json!([])),
            part("plain", "a", &[]),
        ];
        let names = |old: Option<&Arc<Role>>, new: Option<&Arc<Role>>| {
            let name = &new.or(old).unwrap().metadata.name;
            let key = ObjectKey::cluster_wide(ClusterId::new("c"), &**name);
            let change = Change { key, old: old.cloned(), new: new.cloned() };
            let keys = to_enqueue(&change, &all);
            keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (before, after) = (part("p", "a", &[]), part("p", "b", &[]));
        assert_eq!(names(None, Some(&before)), ["by-a"]);
        assert_eq!(names(Some(&before), Some(&after)), ["by-a", "by-b"]);
        assert_eq!(names(Some(&after), None), ["by-b"]);
        assert_eq!(names(None, Some(&all[1])), ["by-b"], "itself");
    }
}
