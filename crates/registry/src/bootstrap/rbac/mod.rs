//! The default ClusterRoles, Roles and bindings of Kubernetes.

mod reconcile;
mod table;

use serde_json::{Map, Value, json};

use super::objects::Seed;
use crate::kind::Kind;
use crate::kinds::rbac::cluster_role::ClusterRole;
use crate::kinds::rbac::cluster_role_binding::ClusterRoleBinding;
use crate::kinds::rbac::role::Role;
use crate::kinds::rbac::role_binding::RoleBinding;
pub(super) use reconcile::{Reconciled, reconciled};

/// Field manager of the rules of aggregated roles.
const AGGREGATOR: &str = "clusterrole-aggregation-controller";

/// Prefix of the labels by which roles are aggregated into others.
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Label of the default roles and bindings.
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");

/// Annotation that enables the reconciliation at each start; users may set it to `false`.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The kind of an object, if it is a role or a binding.
pub(super) fn kind_of(object: &Value) -> Option<&'static dyn Kind> {
    let kinds: [&'static dyn Kind; 4] = [&ClusterRole, &ClusterRoleBinding, &Role, &RoleBinding];
    kinds.into_iter().find(|kind| {
        let declaration = kind.declaration();
        object["kind"] == *declaration.kind && object["apiVersion"] == declaration.storage_api_version()
    })
}

/// An iterator, because all objects at once would be the peak of the memory that a start takes.
pub(super) fn seeds() -> impl Iterator<Item = Seed> {
    let mut roles = table::read(include_str!("roles.txt"));
    roles.extend(table::read(include_str!("controllers.txt")));
    (0..roles.len()).flat_map(move |index| {
        let role = &roles[index];
        std::iter::once(role_seed(role, &roles)).chain(bindings(role)).collect::<Vec<_>>()
    })
}

fn role_seed(role: &table::Role, all: &[table::Role]) -> Seed {
    let mut labels = Map::new();
    if let Some(whole) = role.part_of {
        labels.insert(format!("{AGGREGATE_TO}{whole}"), "true".into());
    }
    let mut object = json!({"metadata": metadata(&role.name, labels)});
    let kind: &'static dyn Kind = if role.namespace.is_empty() { &ClusterRole } else { &Role };
    let Some(whole) = role.collects else {
        object["rules"] = role.rules.iter().map(table::Rule::object).collect();
        return Seed::new(kind, role.namespace, object);
    };
    let label = Map::from_iter([(format!("{AGGREGATE_TO}{whole}"), "true".into())]);
    object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": label}]});
    Seed::new(kind, role.namespace, object).with_applied(AGGREGATOR, json!({"rules": collected(all, whole)}))
}

/// The rules of an aggregated role, as the ClusterRole aggregation controller would compute them.
fn collected(all: &[table::Role], whole: &str) -> Vec<Value> {
    let mut parts: Vec<&table::Role> = all.iter().filter(|role| role.part_of == Some(whole)).collect();
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    let mut rules = Vec::new();
    for role in parts {
        let of_part = match role.collects {
            Some(inner) => collected(all, inner),
            None => role.rules.iter().map(table::Rule::object).collect(),
        };
        for rule in of_part {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

fn bindings(role: &table::Role) -> impl Iterator<Item = Seed> {
    let (kind, role_kind): (&'static dyn Kind, _) = match role.namespace {
        "" => (&ClusterRoleBinding, "ClusterRole"),
        _ => (&RoleBinding, "Role"),
    };
    role.bindings.iter().map(move |binding| {
        let mut object = json!({
            "metadata": metadata(&binding.name, Map::new()),
            "roleRef": {"kind": role_kind, "name": role.name},
        });
        if !binding.subjects.is_empty() {
            object["subjects"] = binding.subjects.iter().map(table::Subject::object).collect();
        }
        Seed::new(kind, role.namespace, object)
    })
}

fn metadata(name: &str, mut labels: Map<String, Value>) -> Value {
    labels.insert(BOOTSTRAPPING.0.into(), BOOTSTRAPPING.1.into());
    json!({"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_role_has_each_rule_of_its_parts_once() {
        let text = "role whole collects w\n\nrole z part-of w\n  get core pods\n  get core nodes\n\n\
            role a collects inner part-of w\n\nrole i part-of inner\n  get core nodes\n";
        let roles = table::read(text);
        let resources: Vec<_> =
            collected(&roles, "w").iter().map(|rule| rule["resources"][0].clone()).collect();
        assert_eq!(resources, ["nodes", "pods"]);
    }

    #[test]
    fn names_of_roles_and_bindings_are_unique() {
        let mut names: Vec<String> = seeds()
            .map(|seed| {
                format!(
                    "{} {} {}",
                    seed.kind.declaration().kind,
                    seed.namespace,
                    seed.object["metadata"]["name"]
                )
            })
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), all), (134, 134));
    }
}
