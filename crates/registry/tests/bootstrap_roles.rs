//! Default roles and bindings: changes by users, and their reconciliation at the next start.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_registry::kinds::rbac::cluster_role::ClusterRole;
use coracle_registry::kinds::rbac::cluster_role_binding::ClusterRoleBinding;
use coracle_registry::kinds::rbac::permission::missing;
use coracle_registry::kinds::rbac::role::Role;
use coracle_registry::lifecycle::{Change, DeleteOptions, Write};
use coracle_registry::{Cluster, Error, Identity, Kind, Registry, ServerInfo};
use serde_json::{Value, json};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

async fn cluster() -> Cluster {
    let registry = Registry::in_memory();
    registry.bootstrap(&ServerInfo::default()).await.unwrap();
    registry.cluster("default").unwrap()
}

fn write(kind: &'static dyn Kind) -> Write<'static> {
    Write {
        kind,
        api_version: "rbac.authorization.k8s.io/v1",
        served_version: "v1",
        namespace: "",
        subresource: "",
        manager: "test",
        requester: const { &Identity::server() },
        dry_run: false,
        audit: None,
        sent: None,
    }
}

async fn get(cluster: &Cluster, kind: &dyn Kind, name: &str) -> Result<Value, Error> {
    let object = cluster.get(kind, "", name, None).await?;
    Ok(serde_json::from_slice(&object.json).unwrap())
}

async fn change(cluster: &Cluster, kind: &'static dyn Kind, name: &str, change: fn(&mut Value)) -> Value {
    let patch = |mut object: Value| {
        change(&mut object);
        Ok(object)
    };
    let updated = cluster.update(&write(kind), name, &Change::Patch(&patch)).await.unwrap();
    serde_json::from_slice(&updated.object.json).unwrap()
}

async fn delete(cluster: &Cluster, kind: &'static dyn Kind, name: &str) {
    assert!(cluster.delete(&write(kind), name, &DeleteOptions::default()).await.unwrap().gone);
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let managed = object["metadata"]["managedFields"].as_array().unwrap();
    managed
        .iter()
        .map(|fields| (fields["manager"].as_str().unwrap(), fields["operation"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn aggregated_roles_have_rules_from_the_beginning() {
    let cluster = cluster().await;
    let [admin, edit, view] = ["admin", "edit", "view"];
    let mut rules = Vec::new();
    for name in [admin, edit, view] {
        let role = get(&cluster, &ClusterRole, name).await.unwrap();
        let applied = ("clusterrole-aggregation-controller", "Apply");
        assert_eq!(managers(&role), [applied, ("kube-apiserver", "Update")]);
        rules.push(role["rules"].as_array().unwrap().clone());
    }
    // Each has one rule for metrics.k8s.io, which in other clusters comes with metrics-server.
    assert_eq!(rules.iter().map(Vec::len).collect::<Vec<_>>(), [30, 28, 13]);
    assert_eq!(missing(&rules[0], &rules[1]), [Value::Null; 0]);
    assert_eq!(missing(&rules[1], &rules[2]), [Value::Null; 0]);
    let secrets = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
    assert_eq!(missing(&rules[2], std::slice::from_ref(&secrets)).len(), 1, "viewers see no secrets");
    assert_eq!(missing(&rules[1], &[secrets]), [Value::Null; 0]);
}

#[tokio::test]
async fn deleted_role_is_restored_by_the_next_start() {
    let cluster = cluster().await;
    let before = get(&cluster, &ClusterRole, "view").await.unwrap();
    delete(&cluster, &ClusterRole, "view").await;
    assert!(matches!(get(&cluster, &ClusterRole, "view").await, Err(Error::NotFound(_))));
    cluster.reconcile().await.unwrap();
    assert_eq!(get(&cluster, &ClusterRole, "view").await.unwrap()["rules"], before["rules"]);
}

#[tokio::test]
async fn start_restores_removed_rules_and_keeps_added_ones() {
    let cluster = cluster().await;
    let name = "system:basic-user";
    let changed = change(&cluster, &ClusterRole, name, |role| {
        role["metadata"]["labels"] = json!({"mine": "yes"});
        role["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    })
    .await;
    cluster.reconcile().await.unwrap();
    let mended = get(&cluster, &ClusterRole, name).await.unwrap();
    let labels = json!({"mine": "yes", "kubernetes.io/bootstrapping": "rbac-defaults"});
    assert_eq!(mended["metadata"]["labels"], labels);
    assert_eq!(mended["rules"][0], changed["rules"][0]);
    assert_eq!(mended["rules"].as_array().unwrap().len(), 4, "{mended}");
    assert_eq!(mended["metadata"]["uid"], changed["metadata"]["uid"]);
    cluster.reconcile().await.unwrap();
    assert_eq!(get(&cluster, &ClusterRole, name).await.unwrap(), mended, "no further change");

    change(&cluster, &ClusterRoleBinding, name, |binding| {
        binding["subjects"] = json!([{"kind": "User", "name": "jane"}]);
    })
    .await;
    cluster.reconcile().await.unwrap();
    let binding = get(&cluster, &ClusterRoleBinding, name).await.unwrap();
    let names: Vec<_> =
        binding["subjects"].as_array().unwrap().iter().map(|subject| &subject["name"]).collect();
    assert_eq!(names, ["jane", "system:authenticated"]);
}

#[tokio::test]
async fn role_with_autoupdate_false_is_not_changed() {
    let cluster = cluster().await;
    let own = change(&cluster, &ClusterRole, "system:discovery", |role| {
        role["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        role["rules"] = json!([]);
    })
    .await;
    cluster.reconcile().await.unwrap();
    assert_eq!(get(&cluster, &ClusterRole, "system:discovery").await.unwrap(), own);
}

#[tokio::test]
async fn binding_with_changed_role_ref_is_recreated() {
    let cluster = cluster().await;
    let name = "cluster-admin";
    let before = get(&cluster, &ClusterRoleBinding, name).await.unwrap();
    delete(&cluster, &ClusterRoleBinding, name).await;
    let other = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
    });
    cluster.create(&write(&ClusterRoleBinding), other).await.unwrap();
    cluster.reconcile().await.unwrap();
    let after = get(&cluster, &ClusterRoleBinding, name).await.unwrap();
    assert_eq!((&after["roleRef"], &after["subjects"]), (&before["roleRef"], &before["subjects"]));
}

#[tokio::test]
async fn namespaced_roles_are_reconciled() {
    let cluster = cluster().await;
    let (namespace, name) = ("kube-system", "extension-apiserver-authentication-reader");
    let write = Write { namespace, ..write(&Role) };
    let nothing = |mut role: Value| {
        role["rules"] = json!([]);
        Ok(role)
    };
    cluster.update(&write, name, &Change::Patch(&nothing)).await.unwrap();
    cluster.reconcile().await.unwrap();
    let role = cluster.get(&Role, namespace, name, None).await.unwrap();
    let role: Value = serde_json::from_slice(&role.json).unwrap();
    assert_eq!(role["rules"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn empty_rules_have_a_manager_if_sent() {
    let cluster = cluster().await;
    for (name, rules, owners) in [("told", json!([]), 1), ("untold", Value::Null, 0)] {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        cluster.create(&write(&ClusterRole), role).await.unwrap();
        let created = get(&cluster, &ClusterRole, name).await.unwrap();
        assert_eq!(created["rules"], Value::Null, "{name}");
        let managed = created["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
        assert_eq!(managed, owners, "{name}");
    }
}
