//! PodMetrics: resource usage of the containers of a pod.

use std::sync::LazyLock;

use serde_json::Value;

use super::{GROUP, cells, columns};
use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::view;

/// [`Kind`] of PodMetrics objects.
pub struct PodMetrics;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::GET.with(Verbs::LIST),
    columns: columns(),
    ..Declaration::new(GROUP, &["v1beta1"], "PodMetrics", "pods", "", Scope::Namespaced)
});

impl Kind for PodMetrics {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let containers = view::items(object, &["containers"]);
        cells(object, containers.iter().filter_map(|container| view::at(container, &["usage"])))
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    crate::samples::Samples {
        valid: vec![json!({
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": "sample", "namespace": "default"},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "15s",
            "containers": [
                {"name": "a", "usage": {"cpu": "1", "memory": "1Gi"}},
                {"name": "b", "usage": {"cpu": "500m", "memory": "512Mi"}},
            ],
        })],
        invalid: Vec::new(),
        updates: Vec::new(),
        invalid_updates: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_row_sums_usage_of_all_containers() {
        let sample = &samples().valid[0];
        assert_eq!(PodMetrics.cells(sample, 0), ["sample", "1500m", "1536Mi", "15s"]);
    }
}
