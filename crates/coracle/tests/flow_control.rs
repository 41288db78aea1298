//! API Priority and Fairness in a whole server: the status of FlowSchemas.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle::kube::Client;
use coracle::kube::api::{Api, DeleteParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use serde_json::json;
use tempfile::TempDir;

/// Time limit for the controllers to become idle.
const LIMIT: Duration = Duration::from_secs(30);

async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(dir.path()) };
    (Coracle::start(config).await.unwrap(), dir)
}

/// Status and reason of the condition `Dangling`, once the controllers are idle.
async fn dangling(server: &Handle, client: &Client, name: &str) -> (String, String) {
    tokio::time::timeout(LIMIT, server.run_until_idle()).await.unwrap().unwrap();
    let schema = Api::<FlowSchema>::all(client.clone()).get(name).await.unwrap();
    let conditions = schema.status.and_then(|status| status.conditions).unwrap_or_default();
    let condition = conditions.into_iter().find(|found| found.type_.as_deref() == Some("Dangling")).unwrap();
    assert!(condition.last_transition_time.is_some());
    (condition.status.unwrap(), condition.reason.unwrap())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn schema_without_level_is_dangling() {
    let (server, _dir) = start().await;
    let client = server.client();
    let levels = Api::<PriorityLevelConfiguration>::all(client.clone());
    let schemas = Api::<FlowSchema>::all(client.clone());
    let schema = serde_json::from_value(json!({
        "metadata": {"name": "mine"},
        "spec": {"priorityLevelConfiguration": {"name": "mine"}, "rules": []},
    }));
    schemas.create(&PostParams::default(), &schema.unwrap()).await.unwrap();
    assert_eq!(dangling(&server, &client, "mine").await, pair("True", "NotFound"));
    let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
    let level = json!({"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": limited}});
    levels.create(&PostParams::default(), &serde_json::from_value(level).unwrap()).await.unwrap();
    assert_eq!(dangling(&server, &client, "mine").await, pair("False", "Found"));
    levels.delete("mine", &DeleteParams::default()).await.unwrap();
    assert_eq!(dangling(&server, &client, "mine").await, pair("True", "NotFound"));
    // A FlowSchema that every cluster has from the start.
    assert_eq!(dangling(&server, &client, "service-accounts").await, pair("False", "Found"));
    server.shutdown().await;
}
