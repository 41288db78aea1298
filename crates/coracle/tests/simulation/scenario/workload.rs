//! Workloads with versioned pods, shared by several scenarios.

use std::time::Duration;

use serde_json::{Value, json};

use super::Context;
use crate::state::{PODS, State, app, format_pods, image, is_ready, is_terminating, name, number};

/// The retry interval of operations that are not possible yet.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The desired number and version of pods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DesiredPods {
    pub(super) replicas: u64,
    pub(super) version: u64,
}

/// The image of a version.
pub(super) fn image_of(version: u64) -> String {
    format!("registry.example/app:{version}")
}

/// A template of pods with random delays.
pub(super) fn template(context: &mut Context, app: &str, version: u64) -> Value {
    let annotations = json!({
        "fake.coracle.dev/ready-after": context.one_of(&["0s", "0s", "1s", "4s"]),
        "fake.coracle.dev/terminate-after": context.one_of(&["0s", "0s", "1s", "6s"]),
    });
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image_of(version)}]},
    })
}

/// Creates or patches a workload. Waits for one that is still being deleted.
pub(super) async fn write(context: &Context, path: &str, object: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let place = format!("{path}/{name}");
    loop {
        let found = context.users.get(&place).await;
        let done = if found.is_null() {
            context.users.create(path, object).await
        } else if is_terminating(&found) {
            Value::Null
        } else {
            context.users.patch(&place, object).await
        };
        if !done.is_null() {
            return;
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

/// Deletes a workload with its dependents, in the background or foreground.
pub(super) async fn delete(context: &mut Context, path: &str) {
    let policy = context.one_of(&["Background", "Foreground"]);
    context.users.delete(path, &json!({"propagationPolicy": policy})).await;
}

/// The difference between the desired and the actual pods of an app.
pub(super) fn pod_differences(
    namespace: &str,
    state: &State,
    app_name: &str,
    DesiredPods { replicas, version }: DesiredPods,
) -> Option<String> {
    let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| app(pod) == app_name).collect();
    let is_right = |pod: &&&Value| image(pod) == image_of(version) && !is_terminating(pod) && is_ready(pod);
    let right = pods.iter().filter(is_right).count() as u64;
    (right != replicas || pods.len() as u64 != replicas).then(|| {
        format!("{app_name} should have {replicas} pods of version {version}, has {}", format_pods(pods))
    })
}

/// The difference between the expected and the actual status of a deployment.
pub(super) fn status_difference(
    deployment: &Value,
    DesiredPods { replicas, .. }: DesiredPods,
) -> Option<String> {
    let is_observed =
        number(deployment, "/status/observedGeneration") == number(deployment, "/metadata/generation");
    let counts = ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"];
    let is_right = |count: &str| number(deployment, &format!("/status/{count}")) == replicas;
    (!is_observed || !counts.iter().all(|count| is_right(count))).then(|| {
        format!("{} has status {}, expected {replicas} replicas", name(deployment), deployment["status"])
    })
}
