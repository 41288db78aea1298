//! Privilege escalation by roles and bindings: granting permissions that the writer does not have.

use http::Method;
use serde_json::{Value, json};

use super::server::{Client, RBAC, admin, binding};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings";
const JSON: &str = "application/json";

/// A user who may write all roles and bindings, and read pods.
async fn clerk() -> (Client, Client) {
    let admin = admin().await;
    let rules = json!([
        {"verbs": ["get", "list", "create", "update", "patch"], "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"]},
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
    ]);
    admin.make_cluster_role("clerk", rules).await;
    admin.bind("jane", "", "clerk").await;
    let jane = admin.user("jane");
    (admin, jane)
}

fn role(name: &str, verbs: &[&str], resource: &str) -> Value {
    let rules = json!([{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]);
    json!({"metadata": {"name": name}, "rules": rules})
}

#[tokio::test]
async fn attack_a_role_with_more_than_its_writer_has() {
    let (_, jane) = clerk().await;
    jane.make(ROLES, role("own", &["list"], "pods")).await;
    let (code, status) = jane.post(ROLES, role("more", &["get", "delete", "list"], "pods")).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], \
         Verbs:[\"delete\"]}"
    );
    let details = json!({"name": "more", "group": "rbac.authorization.k8s.io", "kind": "roles"});
    assert_eq!(status["details"], details);

    let one = format!("{ROLES}/own");
    let (code, _) = jane.send(Method::PUT, &one, JSON, role("own", &["*"], "pods")).await;
    assert_eq!(code, 403);
    let patch = json!({"rules": role("own", &["get"], "secrets")["rules"]});
    assert_eq!(jane.send(Method::PATCH, &one, "application/merge-patch+json", patch).await.0, 403);
    let patch = json!([{"op": "add", "path": "/rules/0/resources/-", "value": "secrets"}]);
    assert_eq!(jane.send(Method::PATCH, &one, "application/json-patch+json", patch).await.0, 403);
    for name in ["own", "new"] {
        let mut applied = role(name, &["list"], "secrets");
        applied["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        applied["kind"] = json!("Role");
        assert_eq!(jane.apply(&format!("{ROLES}/{name}"), applied).await.0, 403, "{name}");
    }
    let dry = format!("{ROLES}?dryRun=All");
    assert_eq!(jane.post(&dry, role("more", &["*"], "pods")).await.0, 403);
    assert_eq!(jane.post(&format!("{RBAC}/clusterroles"), role("more", &["*"], "*")).await.0, 403);
    // Fewer permissions, and fields other than the rules, may be written.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(jane.send(Method::PATCH, &one, "application/merge-patch+json", labels).await.0, 200);
    assert_eq!(jane.send(Method::PUT, &one, JSON, role("own", &["get"], "pods")).await.0, 200);
}

#[tokio::test]
async fn attack_a_role_that_gathers_what_others_have() {
    let (admin, jane) = clerk().await;
    let roles = format!("{RBAC}/clusterroles");
    let selectors = json!([{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}]);
    let gathering = json!({"metadata": {"name": "g"}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []});
    let (code, status) = jane.post(&roles, gathering.clone()).await;
    let message = "clusterroles.rbac.authorization.k8s.io \"g\" is forbidden: must have cluster-admin privileges to use the \
                   aggregationRule";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    admin.make(&roles, gathering).await;
    // Nor may it be tightened, for that could be prevented as well.
    let patch = json!({"aggregationRule": null});
    let one = format!("{roles}/g");
    assert_eq!(jane.send(Method::PATCH, &one, "application/merge-patch+json", patch).await.0, 403);
}

#[tokio::test]
async fn attack_a_binding_to_a_role_with_more() {
    let (admin, jane) = clerk().await;
    let (code, status) = jane.post(BINDINGS, binding("b", "cluster-admin", "jane")).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], \
         Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
    );
    let everywhere = format!("{RBAC}/clusterrolebindings");
    assert_eq!(jane.post(&everywhere, binding("b", "cluster-admin", "jane")).await.0, 403);
    // Bindings to another user are rejected the same way.
    assert_eq!(jane.post(BINDINGS, binding("b", "edit", "joe")).await.0, 403);
    jane.make(BINDINGS, binding("b", "clerk", "joe")).await;
    // One that is there cannot be extended.
    admin.make(BINDINGS, binding("admins", "admin", "alice")).await;
    let more = json!({"subjects": binding("", "", "jane")["subjects"]});
    let one = format!("{BINDINGS}/admins");
    assert_eq!(jane.send(Method::PATCH, &one, "application/merge-patch+json", more).await.0, 403);
}

#[tokio::test]
async fn escalate_and_bind_are_permissions_of_their_own() {
    let (admin, jane) = clerk().await;
    let rules = json!([
        {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
            "resourceNames": ["edit"]},
        {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
    ]);
    admin.allow("jane", "ns", rules).await;
    jane.make(BINDINGS, binding("edits", "edit", "joe")).await;
    jane.make(ROLES, role("all", &["*"], "*")).await;
    assert_eq!(jane.post(BINDINGS, binding("admins", "admin", "joe")).await.0, 403);
    let everywhere = format!("{RBAC}/clusterrolebindings");
    assert_eq!(jane.post(&everywhere, binding("b", "edit", "joe")).await.0, 403);
    assert_eq!(jane.post(&format!("{RBAC}/clusterroles"), role("all", &["*"], "*")).await.0, 403);
    // Having written the role is not having it.
    let mut bound = binding("mine", "all", "jane");
    bound["roleRef"]["kind"] = json!("Role");
    assert_eq!(jane.post(BINDINGS, bound).await.0, 403);
}

#[tokio::test]
async fn an_administrator_of_a_namespace_stays_in_it() {
    let (admin, _) = clerk().await;
    admin.bind("joe", "ns", "admin").await;
    let joe = admin.user("joe");
    joe.make(BINDINGS, binding("helper", "edit", "ann")).await;
    joe.make(ROLES, role("pods", &["get", "list", "delete"], "pods")).await;
    assert_eq!(joe.post(BINDINGS, binding("b", "cluster-admin", "joe")).await.0, 403);
    assert_eq!(joe.post(ROLES, role("all", &["*"], "*")).await.0, 403);
    assert_eq!(joe.post(ROLES, role("nodes", &["get"], "nodes")).await.0, 403);
    let other = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(joe.post(&other, binding("b", "view", "joe")).await.0, 403);
    assert_eq!(joe.post(&format!("{RBAC}/clusterrolebindings"), binding("b", "view", "joe")).await.0, 403);
}
