//! A service, and a check of its endpoints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Context;
use crate::state::{ENDPOINT_SLICES, PODS, State, app, is_active, is_ready, text};

pub(super) async fn create(context: &Context, name: &str) {
    let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
    let service = json!({"metadata": {"name": name}, "spec": spec});
    context.users.create(&context.path("v1", "services"), &service).await;
}

/// The difference between the endpoints of a service and its ready pods.
pub(super) fn differences(namespace: &str, state: &State, name: &str) -> Option<String> {
    let ready = |pod: &&Value| app(pod) == name && is_active(pod) && is_ready(pod);
    let pods: BTreeSet<_> =
        state.list(PODS, namespace).filter(ready).map(|pod| text(pod, "/status/podIP")).collect();
    let of_it = |slice: &&Value| text(slice, "/metadata/labels/kubernetes.io~1service-name") == name;
    let endpoints = state
        .list(ENDPOINT_SLICES, namespace)
        .filter(of_it)
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
        .filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let endpoints: BTreeSet<_> = endpoints.map(|endpoint| text(endpoint, "/addresses/0")).collect();
    (pods != endpoints).then(|| format!("the endpoints of {name} are {endpoints:?}, expected {pods:?}"))
}
