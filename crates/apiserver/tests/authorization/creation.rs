//! Making something by changing it takes the permission to make it.

use http::Method;
use serde_json::json;

use super::server::admin;

#[tokio::test]
async fn apply_or_put_of_a_missing_object_needs_permission_to_create() {
    let admin = admin().await;
    let rules = json!([{"verbs": ["update", "patch"], "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"]}]);
    admin.allow("jane", "ns", rules).await;
    let jane = admin.user("jane");
    let map = "/api/v1/namespaces/ns/configmaps/m";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let (code, status) = jane.apply(map, object.clone()).await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "configmaps \"m\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \
         \"\" in the namespace \"ns\""
    );
    admin.make("/api/v1/namespaces/ns/configmaps", json!({"metadata": {"name": "m"}})).await;
    assert_eq!(jane.apply(map, object).await.0, 200, "once it is there");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l";
    let (code, _) =
        jane.send(Method::PUT, lease, "application/json", json!({"metadata": {"name": "l"}})).await;
    assert_eq!(code, 403);
    let rules = json!([{"verbs": ["create"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
        "resourceNames": ["l"]}, {"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}]);
    admin.allow("joe", "ns", rules).await;
    let (code, _) = admin
        .user("joe")
        .send(Method::PUT, lease, "application/json", json!({"metadata": {"name": "l"}}))
        .await;
    assert_eq!(code, 201);
}
