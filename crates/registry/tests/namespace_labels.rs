//! Fields that need a label of the namespace.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::kinds::resource::resource_claim::ResourceClaim;
use coracle_registry::kinds::resource::resource_claim_template::ResourceClaimTemplate;
use coracle_registry::lifecycle::{Change, Write};
use coracle_registry::{Cluster, Error, Identity, Registry, ServerInfo};
use serde_json::{Value, json};

const FIELD: &str = "spec.devices.requests[0].adminAccess";

const CLAIMS: Write<'static> = Write {
    kind: &ResourceClaim,
    api_version: "resource.k8s.io/v1",
    served_version: "v1",
    namespace: "default",
    subresource: "",
    manager: "test",
    requester: &Identity::server(),
    dry_run: false,
    audit: None,
    sent: None,
};

async fn cluster() -> Cluster {
    let registry = Registry::in_memory();
    registry.bootstrap(&ServerInfo::default()).await.unwrap();
    registry.cluster("default").unwrap()
}

async fn label_namespace(cluster: &Cluster, value: &str) {
    let labelled = |mut namespace: Value| {
        namespace["metadata"]["labels"]["resource.kubernetes.io/admin-access"] = value.into();
        Ok(namespace)
    };
    let write = Write { kind: &Namespace, api_version: "v1", namespace: "", ..CLAIMS };
    cluster.update(&write, "default", &Change::Patch(&labelled)).await.unwrap();
}

fn spec(request_name: &str) -> Value {
    let exactly = json!({"deviceClassName": "c", "allocationMode": "All", "adminAccess": true});
    json!({"devices": {"requests": [{"name": request_name, "exactly": exactly}]}})
}

fn claim(name: &str, request_name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": spec(request_name)})
}

fn fields<T>(outcome: Result<T, Error>) -> Vec<String> {
    match outcome {
        Err(Error::Invalid { errors, .. }) => errors.iter().map(|error| error.field.clone()).collect(),
        Err(other) => panic!("{other}"),
        Ok(_) => Vec::new(),
    }
}

#[tokio::test]
async fn admin_access_without_the_label_is_reported_with_all_other_errors() {
    let cluster = cluster().await;
    let found = fields(cluster.create(&CLAIMS, claim("a", "Bad_Name")).await);
    assert_eq!(found, [FIELD, "spec.devices.requests[0].name"]);
    let templates = Write { kind: &ResourceClaimTemplate, ..CLAIMS };
    let template = json!({"metadata": {"name": "a"}, "spec": {"spec": spec("r")}});
    assert_eq!(fields(cluster.create(&templates, template).await), [FIELD]);
}

#[tokio::test]
async fn admin_access_needs_the_value_true() {
    let cluster = cluster().await;
    for value in ["", "false", "True"] {
        label_namespace(&cluster, value).await;
        assert_eq!(fields(cluster.create(&CLAIMS, claim("a", "r")).await), [FIELD], "{value:?}");
    }
    label_namespace(&cluster, "true").await;
    assert!(fields(cluster.create(&CLAIMS, claim("a", "r")).await).is_empty());
    // The spec cannot change, so the claim stays valid in a namespace that loses its label.
    label_namespace(&cluster, "false").await;
    let annotated = |mut claim: Value| {
        claim["metadata"]["annotations"]["a"] = "b".into();
        Ok(claim)
    };
    assert!(fields(cluster.update(&CLAIMS, "a", &Change::Patch(&annotated)).await).is_empty());
}
