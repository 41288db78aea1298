//! Permissions by roles and bindings, from their creation to their deletion.

use http::Method;
use serde_json::json;

use super::server::{RBAC, admin, binding};

const PODS: &str = "/api/v1/namespaces/ns/pods";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

#[tokio::test]
async fn binding_grants_permissions_until_it_is_deleted() {
    let admin = admin().await;
    let jane = admin.user("jane");
    assert_eq!(jane.get(PODS).await.0, 403);
    admin.bind("jane", "ns", "view").await;
    assert_eq!(jane.get(PODS).await.0, 200);
    assert_eq!(jane.get(SECRETS).await.0, 403, "view shows no secrets");
    assert_eq!(jane.get("/api/v1/namespaces/other/pods").await.0, 403);
    assert_eq!(jane.get("/api/v1/pods").await.0, 403);
    assert_eq!(admin.user("joe").get(PODS).await.0, 403);
    let path = format!("{RBAC}/namespaces/ns/rolebindings/jane-view");
    admin.send(Method::DELETE, &path, "application/json", json!({})).await;
    jane.until(403, PODS).await;
}

#[tokio::test]
async fn changed_role_changes_permissions() {
    let admin = admin().await;
    let jane = admin.user("jane");
    let path = format!("{RBAC}/namespaces/ns/roles");
    let role = |resource: &str| {
        let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": [resource]}]);
        json!({"metadata": {"name": "r"}, "rules": rules})
    };
    let mut bound = binding("b", "r", "jane");
    bound["roleRef"]["kind"] = json!("Role");
    admin.make(&format!("{RBAC}/namespaces/ns/rolebindings"), bound).await;
    // The binding refers to a role that does not exist yet.
    admin.make(&path, role("pods")).await;
    jane.until(200, PODS).await;
    assert_eq!(jane.get(SECRETS).await.0, 403);
    let one = format!("{path}/r");
    admin.send(Method::PUT, &one, "application/json", role("secrets")).await;
    jane.until(200, SECRETS).await;
    assert_eq!(jane.get(PODS).await.0, 403);
    admin.send(Method::DELETE, &one, "application/json", json!({})).await;
    jane.until(403, SECRETS).await;
    let (_, status) = jane.get(SECRETS).await;
    assert_eq!(
        status["message"],
        "secrets is forbidden: User \"jane\" cannot list resource \"secrets\" in API group \"\" in the \
         namespace \"ns\": RBAC: role.rbac.authorization.k8s.io \"r\" not found"
    );
    assert_eq!((&status["reason"], &status["code"]), (&json!("Forbidden"), &json!(403)));
    assert_eq!(status["details"], json!({"kind": "secrets"}));
}

#[tokio::test]
async fn roles_of_one_cluster_grant_nothing_in_another() {
    let admin = admin().await;
    let jane = admin.user("jane");
    let there = |path: &str| format!("/clusters/a{path}");
    let path = there(&format!("{RBAC}/clusterrolebindings"));
    admin.make(&path, binding("jane", "cluster-admin", "jane")).await;
    jane.until(200, &there(SECRETS)).await;
    assert_eq!(jane.get(SECRETS).await.0, 403);
    assert_eq!(jane.get("/clusters/b/api/v1/namespaces/ns/secrets").await.0, 403);
}

#[tokio::test]
async fn one_object_may_be_watched_by_its_name() {
    let admin = admin().await;
    let rules = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": ["mine"]}]);
    admin.allow("jane", "ns", rules).await;
    let jane = admin.user("jane");
    let selected = |selector: &str| format!("{SECRETS}?fieldSelector={selector}");
    assert_eq!(jane.get(&format!("{SECRETS}/mine")).await.0, 404);
    assert_eq!(jane.get(&selected("metadata.name=mine")).await.0, 200);
    for refused in [
        format!("{SECRETS}/other"),
        SECRETS.to_owned(),
        selected("metadata.name=other"),
        selected("metadata.name!=mine"),
        selected("metadata.namespace=mine"),
        // Of two selectors the first is used, for authorization and for selection.
        format!("{}&fieldSelector=metadata.name=mine", selected("")),
    ] {
        assert_eq!(jane.get(&refused).await.0, 403, "{refused}");
    }
    // The list selects by the authorized selector, and ignores the second one.
    for name in ["mine", "other"] {
        admin.make(SECRETS, json!({"metadata": {"name": name}})).await;
    }
    let twice = format!("{}&fieldSelector=metadata.name=other", selected("metadata.name=mine"));
    let (_, list) = jane.get(&twice).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["metadata"]["name"], "mine");
}
