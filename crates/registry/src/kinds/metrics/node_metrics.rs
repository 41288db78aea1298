//! NodeMetrics: resource usage of a node.

use std::sync::LazyLock;

use serde_json::Value;

use super::{GROUP, cells, columns};
use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::view;

/// [`Kind`] of NodeMetrics objects.
pub struct NodeMetrics;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::GET.with(Verbs::LIST),
    columns: columns(),
    ..Declaration::new(GROUP, &["v1beta1"], "NodeMetrics", "nodes", "", Scope::Cluster)
});

impl Kind for NodeMetrics {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        cells(object, view::at(object, &["usage"]).into_iter())
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
            "kind": "NodeMetrics",
            "metadata": {"name": "sample"},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "15s",
            "usage": {"cpu": "250m", "memory": "1Gi"},
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
    fn table_row_shows_usage() {
        let sample = &samples().valid[0];
        assert_eq!(NodeMetrics.cells(sample, 0), ["sample", "250m", "1Gi", "15s"]);
    }
}
