//! DefaultBinder: binds a pod through its `binding` subresource.

use std::sync::Arc;

use coracle_runtime::Objects;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::cluster_state::ClusterState;
use crate::framework::{BindError, Binding, Plugin};
use crate::view::Pod;

pub(crate) struct DefaultBinder {
    /// None in a simulation, where nothing is written.
    pods: Option<Objects>,
}

impl DefaultBinder {
    pub(crate) fn new(pods: Option<Objects>) -> Self {
        Self { pods }
    }
}

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        "DefaultBinder"
    }

    fn bind(&self, state: &ClusterState, pod: &Arc<Pod>, node: &str) -> Option<Binding> {
        let pods = self.pods.clone()?;
        let metadata = &pod.metadata;
        let key = state.key_of(pod);
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid},
            "target": {"kind": "Node", "name": node},
        });
        Some(Box::pin(async move {
            let answer = pods.create_subresource::<IgnoredAny>(&key, "binding", &body).await;
            answer.map(drop).map_err(|error| BindError(error.to_string()))
        }))
    }
}
