//! Aggregated ClusterRoles in a running server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(dir.path()) };
    (Coracle::start(config).await.unwrap(), dir)
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

async fn rules(roles: &Api<ClusterRole>, name: &str) -> Vec<PolicyRule> {
    roles.get(name).await.unwrap().rules.unwrap_or_default()
}

fn role(name: &str, rest: Value) -> ClusterRole {
    let mut role = json!({"metadata": {"name": name}});
    for (field, value) in rest.as_object().unwrap() {
        match field.as_str() {
            "labels" => role["metadata"]["labels"] = value.clone(),
            field => role[field] = value.clone(),
        }
    }
    serde_json::from_value(role).unwrap()
}

#[tokio::test]
async fn initial_cluster_roles_are_aggregated_already() {
    let (cluster, _dir) = start().await;
    let roles = Api::<ClusterRole>::all(cluster.client());
    idle(&cluster).await;
    let untouched = roles.get("cluster-admin").await.unwrap().metadata.resource_version;
    for name in ["admin", "edit", "view"] {
        let role = roles.get(name).await.unwrap();
        assert_eq!(
            role.metadata.resource_version, untouched,
            "the controller has nothing to write to {name}"
        );
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn labelled_role_is_aggregated_to_edit_and_admin() {
    let (cluster, _dir) = start().await;
    let roles = Api::<ClusterRole>::all(cluster.client());
    let [edit, admin, view] =
        [rules(&roles, "edit").await, rules(&roles, "admin").await, rules(&roles, "view").await];
    let own = json!({"verbs": ["get"], "apiGroups": ["stable.example.com"], "resources": ["crontabs"]});
    let label = "rbac.authorization.k8s.io/aggregate-to-edit";
    let crontabs = role("aggregate-cron-tabs-edit", json!({"labels": {label: "true"}, "rules": [own]}));
    roles.create(&PostParams::default(), &crontabs).await.unwrap();
    idle(&cluster).await;
    let own: PolicyRule = serde_json::from_value(own).unwrap();
    let first = |rules: Vec<PolicyRule>| rules.first().cloned();
    // By name it precedes `system:aggregate-to-edit`.
    assert_eq!(first(rules(&roles, "edit").await), Some(own.clone()));
    assert_eq!(first(rules(&roles, "admin").await), Some(own));
    assert_eq!(rules(&roles, "edit").await.len(), edit.len() + 1);
    assert_eq!(rules(&roles, "view").await, view);

    let unlabelled = json!({"metadata": {"labels": {label: null}}});
    let params = PatchParams::default();
    roles.patch("aggregate-cron-tabs-edit", &params, &Patch::Merge(unlabelled)).await.unwrap();
    idle(&cluster).await;
    assert_eq!((rules(&roles, "edit").await, rules(&roles, "admin").await), (edit, admin));
    cluster.shutdown().await;
}

#[tokio::test]
async fn own_rules_of_an_aggregated_role_are_overwritten() {
    let (cluster, _dir) = start().await;
    let roles = Api::<ClusterRole>::all(cluster.client());
    let nodes = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]});
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"team": "blue"}}]});
    let whole = role("whole", json!({"aggregationRule": selectors, "rules": [nodes]}));
    roles.create(&PostParams::default(), &whole).await.unwrap();
    let part = role("part", json!({"labels": {"team": "blue"}, "rules": [pods]}));
    roles.create(&PostParams::default(), &part).await.unwrap();
    idle(&cluster).await;
    assert_eq!(json!(rules(&roles, "whole").await), json!([pods]));
    let managed = roles.get("whole").await.unwrap().metadata.managed_fields.unwrap();
    let applied = managed.iter().find(|fields| fields.operation.as_deref() == Some("Apply")).unwrap();
    assert_eq!(applied.manager.as_deref(), Some("clusterrole-aggregation-controller"));
    assert_eq!(json!(applied.fields_v1), json!({"f:rules": {}}));

    roles.delete("part", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(rules(&roles, "whole").await, []);
    cluster.shutdown().await;
}
