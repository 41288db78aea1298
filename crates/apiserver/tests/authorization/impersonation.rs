//! Attacks by impersonation.

use serde_json::json;

use super::server::admin;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const PODS: &str = "/api/v1/namespaces/ns/pods";
const NODES: &str = "/api/v1/nodes";

#[tokio::test]
async fn attack_acting_as_an_administrator() {
    let admin = admin().await;
    let jane = admin.user("jane");
    for headers in [
        vec![(USER, "admin"), (GROUP, "system:masters")],
        vec![(USER, "kubernetes-admin")],
        vec![(GROUP, "system:masters"), (USER, "jane")],
        vec![(USER, "system:serviceaccount:kube-system:admin")],
        vec![(USER, "system:node:n")],
        vec![(USER, "jane"), ("impersonate-uid", "1")],
        vec![(USER, "jane"), ("impersonate-extra-a", "b")],
    ] {
        let client = headers.iter().fold(jane.clone(), |client, (name, value)| client.with(name, value));
        assert_eq!(client.get(NODES).await.0, 403, "{headers:?}");
    }
    let (code, status) = jane.with(GROUP, "system:masters").get(NODES).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
}

#[tokio::test]
async fn attack_more_groups_than_may_be_taken_on() {
    let admin = admin().await;
    let rules = json!([
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]},
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["dev"]},
    ]);
    admin.make_cluster_role("as", rules).await;
    admin.bind("jane", "", "as").await;
    admin.bind("joe", "ns", "view").await;
    let jane = admin.user("jane");
    assert_eq!(jane.get(PODS).await.0, 403);
    let joe = jane.with(USER, "joe");
    assert_eq!(joe.get(PODS).await.0, 200, "as joe may");
    assert_eq!(joe.with(GROUP, "dev").get(PODS).await.0, 200);
    assert_eq!(joe.get(NODES).await.0, 403, "and no more");
    let (code, _) = joe.with(GROUP, "dev").with(GROUP, "system:masters").get(NODES).await;
    assert_eq!(code, 403);
    assert_eq!(joe.with("impersonate-uid", "1").get(PODS).await.0, 403);
    assert_eq!(joe.with("impersonate-extra-example.com%2fa", "b").get(PODS).await.0, 403);
    assert_eq!(jane.with(USER, "system:serviceaccount:ns:robot").get(PODS).await.0, 403);
}

#[tokio::test]
async fn accounts_may_be_taken_on_where_they_are() {
    let admin = admin().await;
    admin.bind("jane", "ns", "edit").await;
    let jane = admin.user("jane");
    let (code, review) = jane
        .with(USER, "system:serviceaccount:ns:robot")
        .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}))
        .await;
    assert_eq!(code, 201, "{review}");
    let info = json!({"username": "system:serviceaccount:ns:robot",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]});
    assert_eq!(review["status"]["userInfo"], info);
    let other = jane.with(USER, "system:serviceaccount:kube-system:robot");
    assert_eq!(other.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.0, 403);
}

#[tokio::test]
async fn what_is_done_as_another_may_be_limited() {
    let admin = admin().await;
    let rules = json!([
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"],
            "resourceNames": ["joe"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["pods"]},
    ]);
    admin.make_cluster_role("as", rules).await;
    admin.bind("jane", "", "as").await;
    admin.bind("joe", "ns", "view").await;
    let joe = admin.user("jane").with(USER, "joe");
    assert_eq!(joe.get(PODS).await.0, 200);
    let services = "/api/v1/namespaces/ns/services";
    assert_eq!(admin.user("joe").get(services).await.0, 200, "joe may");
    let (code, status) = joe.get(services).await;
    let message = "services is forbidden: User \"jane\" cannot impersonate-on:user-info:list resource \"services\" \
                   in API group \"\" in the namespace \"ns\"";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
}
