//! Audit annotations that admission adds to a request.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use coracle_apiserver::{ApiServer, AuditAnnotations, HealthChecks, Identity, PeerIdentity};
use coracle_base::Clock;
use coracle_registry::Registry;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Posts an object, and returns the status code and the audit annotations.
async fn post(server: &ApiServer, path: &str, object: Value) -> (u16, Vec<(String, String)>) {
    let admin =
        Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let mut request = request.body(Full::from(serde_json::to_vec(&object).unwrap())).unwrap();
    let audit = AuditAnnotations::default();
    request.extensions_mut().insert(PeerIdentity(Some(Arc::new(admin))));
    request.extensions_mut().insert(audit.clone());
    let response = server.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), audit.all().into_iter().collect())
}

#[tokio::test]
async fn policies_and_pod_security_add_audit_annotations() {
    let health = HealthChecks::new(CancellationToken::new());
    let server = ApiServer::new(health, Registry::in_memory(), Clock::system());
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let namespace = json!({"metadata": {"name": "strict", "labels": labels}});
    assert_eq!(post(&server, "/api/v1/namespaces", namespace).await, (201, Vec::new()));
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps", "pods"]}]);
    let policy = json!({
        "metadata": {"name": "noting"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "auditAnnotations": [{"key": "who", "valueExpression": "request.userInfo.username"}],
        },
    });
    let group = "/apis/admissionregistration.k8s.io/v1";
    assert_eq!(post(&server, &format!("{group}/validatingadmissionpolicies"), policy).await.0, 201);
    let binding = json!({
        "metadata": {"name": "noting"}, "spec": {"policyName": "noting", "validationActions": ["Deny"]},
    });
    assert_eq!(post(&server, &format!("{group}/validatingadmissionpolicybindings"), binding).await.0, 201);
    let who = ("noting/who".to_owned(), "admin".to_owned());
    let config = json!({"metadata": {"name": "a"}});
    let noted = post(&server, "/api/v1/namespaces/strict/configmaps", config).await;
    assert_eq!(noted, (201, vec![who]));
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"hostPID": true, "containers": [{"name": "c", "image": "i"}]},
    });
    let accounts = "/api/v1/namespaces/strict/serviceaccounts";
    post(&server, accounts, json!({"metadata": {"name": "default"}})).await;
    // Rejected requests are annotated too; policies do not evaluate them any more.
    let enforced = ("pod-security.kubernetes.io/enforce-policy".to_owned(), "baseline:latest".to_owned());
    assert_eq!(post(&server, "/api/v1/namespaces/strict/pods", pod).await, (403, vec![enforced]));
}
