//! ComponentStatus: health of a control plane component.
//!
//! Nothing is stored: the API server that serves this kind collects the health of the components on each read.

use std::sync::LazyLock;

use serde_json::Value;

use crate::kind::{Column, Declaration, Kind, Scope, Verbs, texts};
use crate::view;

/// [`Kind`] of ComponentStatus objects.
pub struct ComponentStatus;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["cs"]),
    verbs: Verbs::GET.with(Verbs::LIST),
    deprecated: Some("v1 ComponentStatus is deprecated in v1.19+".into()),
    columns: vec![
        Column::name(),
        Column::text("Status", "health of the component"),
        Column::text("Message", "health message of the component"),
        Column::text("Error", "error of the health check"),
    ],
    ..Declaration::new("", &["v1"], "ComponentStatus", "componentstatuses", "componentstatus", Scope::Cluster)
});

impl Kind for ComponentStatus {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let conditions = view::items(object, &["conditions"]);
        let healthy = conditions.iter().find(|condition| view::text(condition, &["type"]) == "Healthy");
        let status = match healthy.map(|condition| view::text(condition, &["status"])) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let field = |name: &str| healthy.map_or("", |condition| view::text(condition, &[name]));
        vec![view::name(object).into(), status.into(), field("message").into(), field("error").into()]
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
            "apiVersion": "v1",
            "kind": "ComponentStatus",
            "metadata": {"name": "sample"},
            "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
        })],
        invalid: Vec::new(),
        updates: Vec::new(),
        invalid_updates: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_column_is_healthy_only_for_a_true_condition() {
        let status =
            |conditions: Value| ComponentStatus.cells(&json!({"conditions": conditions}), 0)[1].clone();
        assert_eq!(status(json!([])), "Unknown");
        assert_eq!(status(json!([{"type": "Healthy", "status": "True"}])), "Healthy");
        assert_eq!(status(json!([{"type": "Healthy", "status": "Unknown"}])), "Unhealthy");
    }
}
