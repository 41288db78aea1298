//! Resource usage for the autoscaler: the load of a deployment, shared by its ready pods.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_apiserver::{Measured, MetricsSource, NodeUsage, PodUsage, Usage};
use coracle_base::Clock;
use serde_json::Value;

use crate::history::History;
use crate::state::{DEPLOYMENTS, PODS, State, app, is_active, is_ready, name, text};

/// Annotation of a deployment with the total load of its pods, in thousandths of a CPU.
pub(crate) const LOAD: &str = "simulation/load";

/// The reported measurement window.
const WINDOW: Duration = Duration::from_secs(15);

pub(crate) struct Measurements {
    pub(crate) clock: Clock,
    /// The current state; set once the history is recorded.
    pub(crate) history: Arc<OnceLock<History>>,
}

impl MetricsSource for Measurements {
    fn nodes(&self, _cluster: &str) -> Vec<NodeUsage> {
        Vec::new()
    }

    fn pods(&self, _cluster: &str, namespace: &str) -> Vec<PodUsage> {
        let Some(history) = self.history.get() else { return Vec::new() };
        history.with_state(|state| {
            let ready = state.list(PODS, namespace).filter(|pod| is_active(pod) && is_ready(pod));
            ready.map(|pod| self.of_pod(state, namespace, pod)).collect()
        })
    }
}

impl Measurements {
    fn of_pod(&self, state: &State, namespace: &str, pod: &Value) -> PodUsage {
        let of_app = |other: &&Value| app(other) == app(pod) && is_active(other) && is_ready(other);
        let sharing = state.list(PODS, namespace).filter(of_app).count() as u64;
        let deployment = state.get(DEPLOYMENTS, namespace, app(pod));
        let annotation =
            deployment.map_or("", |deployment| text(deployment, "/metadata/annotations/simulation~1load"));
        let load: u64 = annotation.parse().unwrap_or_default();
        let usage = Usage { cpu_nanocores: load * 1_000_000 / sharing.max(1), memory_bytes: 0 };
        PodUsage {
            namespace: namespace.to_owned(),
            name: name(pod).to_owned(),
            labels: vec![("app".to_owned(), app(pod).to_owned())],
            measured: Measured { at: self.clock.now(), window: WINDOW },
            containers: vec![("c".to_owned(), usage)],
        }
    }
}
