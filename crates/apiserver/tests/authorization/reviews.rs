//! Access reviews return the decision that the authorizers would make.

use http::Method;
use serde_json::{Value, json};

use super::server::{Client, admin};

async fn reviewed(client: &Client, kind: &str, spec: Value) -> Value {
    let path = match kind {
        "localsubjectaccessreviews" => format!("/apis/authorization.k8s.io/v1/namespaces/ns/{kind}"),
        _ => format!("/apis/authorization.k8s.io/v1/{kind}"),
    };
    let (code, review) = client.post(&path, json!({"spec": spec})).await;
    assert_eq!(code, 201, "{review}");
    review["status"].clone()
}

#[tokio::test]
async fn review_names_the_role_that_allows() {
    let admin = admin().await;
    admin.bind("jane", "ns", "view").await;
    let pods =
        |verb: &str, namespace: &str| json!({"verb": verb, "resource": "pods", "namespace": namespace});
    let allowed = json!({
        "allowed": true,
        "reason": "RBAC: allowed by RoleBinding \"jane-view/ns\" of ClusterRole \"view\" to User \"jane\"",
    });
    let about_jane = |attributes: Value| json!({"user": "jane", "resourceAttributes": attributes});
    assert_eq!(reviewed(&admin, "subjectaccessreviews", about_jane(pods("list", "ns"))).await, allowed);
    assert_eq!(reviewed(&admin, "localsubjectaccessreviews", about_jane(pods("list", "ns"))).await, allowed);
    let itself = json!({"resourceAttributes": pods("list", "ns")});
    assert_eq!(reviewed(&admin.user("jane"), "selfsubjectaccessreviews", itself).await, allowed);
    let refused = json!({"allowed": false});
    for attributes in [pods("list", ""), pods("list", "other"), pods("delete", "ns")] {
        assert_eq!(reviewed(&admin, "subjectaccessreviews", about_jane(attributes)).await, refused);
    }
    let path = json!({"groups": ["system:unauthenticated"], "nonResourceAttributes": {"verb": "get", "path": "/version"}});
    assert_eq!(
        reviewed(&admin, "subjectaccessreviews", path).await["reason"],
        "RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \
         \"system:public-info-viewer\" to Group \"system:unauthenticated\""
    );
    let account = json!({"user": "system:serviceaccount:kube-system:generic-garbage-collector",
        "resourceAttributes": {"verb": "delete", "resource": "pods"}});
    assert_eq!(
        reviewed(&admin, "subjectaccessreviews", account).await["reason"],
        "RBAC: allowed by ClusterRoleBinding \"system:controller:generic-garbage-collector\" of ClusterRole \
         \"system:controller:generic-garbage-collector\" to ServiceAccount \"generic-garbage-collector/kube-system\""
    );
}

#[tokio::test]
async fn review_matches_the_decision() {
    let admin = admin().await;
    admin.bind("jane", "ns", "edit").await;
    let jane = admin.user("jane");
    for (verb, method, resource) in [
        ("list", Method::GET, "pods"),
        ("list", Method::GET, "secrets"),
        ("list", Method::GET, "resourcequotas"),
        ("deletecollection", Method::DELETE, "configmaps"),
        ("deletecollection", Method::DELETE, "resourcequotas"),
    ] {
        let attributes = json!({"verb": verb, "resource": resource, "namespace": "ns"});
        let status =
            reviewed(&jane, "selfsubjectaccessreviews", json!({"resourceAttributes": attributes})).await;
        let code = jane.code(&method, &format!("/api/v1/namespaces/ns/{resource}")).await;
        assert_eq!(status["allowed"] == true, code != 403, "{verb} {resource}");
    }
}

#[tokio::test]
async fn invalid_selectors_are_reported() {
    let admin = admin().await;
    let attributes = json!({"verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "what"},
        "labelSelector": {"rawSelector": "a in"}});
    let status =
        reviewed(&admin, "selfsubjectaccessreviews", json!({"resourceAttributes": attributes})).await;
    let error = "spec.resourceAttributes.fieldSelector ignored due to parse error; \
                 spec.resourceAttributes.labelSelector ignored due to parse error";
    assert_eq!(status, json!({"allowed": true, "evaluationError": error}));
}

#[tokio::test]
async fn rules_review_lists_all_rules() {
    let admin = admin().await;
    let rules = |client: Client| async move {
        reviewed(&client, "selfsubjectrulesreviews", json!({"namespace": "ns"})).await
    };
    let all = rules(admin.clone()).await;
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    assert_eq!(all["resourceRules"], everything);
    assert_eq!(all["nonResourceRules"], json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
    assert_eq!(all["incomplete"], false);
    let own = rules(admin.user("jane")).await;
    let verbs = json!(["create"]);
    assert!(own["resourceRules"].as_array().unwrap().iter().all(|rule| rule["verbs"] == verbs), "{own}");
    assert!(own["nonResourceRules"].to_string().contains("/openapi/*"), "{own}");
    // Through two groups by one binding is once.
    let twice = rules(admin.named("jane", &["system:authenticated", "system:unauthenticated"])).await;
    assert_eq!(twice["nonResourceRules"], own["nonResourceRules"]);
}
