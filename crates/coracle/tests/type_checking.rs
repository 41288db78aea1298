//! Type checking of ValidatingAdmissionPolicies, as reported in their status.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::time::Duration;

use coracle::kube::Client;
use coracle::kube::api::{Api, Patch, PatchParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

async fn settle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

async fn create(client: &Client, name: &str, group: &str, resource: &str, expression: &str) {
    let rule =
        json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]});
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        },
    });
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
}

/// The status of a policy.
async fn status(client: &Client, name: &str) -> Value {
    let policy = Api::<ValidatingAdmissionPolicy>::all(client.clone()).get(name).await.unwrap();
    serde_json::to_value(policy.status).unwrap()
}

#[tokio::test]
async fn type_errors_are_reported_in_the_policy_status() {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
    let cluster = Coracle::start(config).await.unwrap();
    let client = cluster.client();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"length": {"type": "integer"}}},
    }});
    let definition = json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    settle(&cluster).await;
    create(&client, "right", "apps", "deployments", "object.spec.replicas > 1").await;
    create(&client, "wrong", "apps", "deployments", "object.spec.replicas > '1'").await;
    create(&client, "boats", "example.com", "boats", "object.spec.length > 1 && object.spec.colour == ''")
        .await;
    settle(&cluster).await;
    let checked = json!({"observedGeneration": 1, "typeChecking": {}});
    assert_eq!(status(&client, "right").await, checked);
    let warning = |kind: &str, text: &str| {
        let warning = format!("{kind}: ERROR: <input>:{text}\n");
        let warnings = json!([{"fieldRef": "spec.validations[0].expression", "warning": warning}]);
        json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": warnings}})
    };
    let text = "1:22: found no matching overload for '_>_' applied to '(int, string)'\n \
                | object.spec.replicas > '1'\n | .....................^";
    assert_eq!(status(&client, "wrong").await, warning("apps/v1, Kind=Deployment", text));
    let text = "1:38: undefined field 'colour'\n \
                | object.spec.length > 1 && object.spec.colour == ''\n \
                | .....................................^";
    assert_eq!(status(&client, "boats").await, warning("example.com/v1, Kind=Boat", text));
    // A changed expression is checked again.
    let patch = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 2"}]}});
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    policies.patch("wrong", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    settle(&cluster).await;
    // Fields that are no longer applied leave no empty parents behind, as in Kubernetes.
    assert_eq!(status(&client, "wrong").await, json!({"observedGeneration": 2}));
    cluster.shutdown().await;
}
