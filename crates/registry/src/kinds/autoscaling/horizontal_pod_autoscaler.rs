//! HorizontalPodAutoscaler: scales a workload by metrics.
//!
//! All code here is for v2, in which objects are stored; for v1 see [`super::conversion`].

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::{behavior, conversion, metrics, targets};
use crate::kind::{Column, Declaration, Kind, Scope, Subresource, texts};
use crate::kinds::apps::checks::{self, count, ensure};
use crate::kinds::ratchet;
use crate::view;

/// Default target utilization of CPU, in percent.
pub(super) const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// [`Kind`] of HorizontalPodAutoscaler objects.
pub struct HorizontalPodAutoscaler;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["hpa"]),
    categories: texts(&["all"]),
    subresources: vec![Subresource::status("HorizontalPodAutoscaler")],
    columns: vec![
        Column::name(),
        Column::text("Reference", "what is scaled"),
        Column::text("Targets", "what is measured, and what it is to be"),
        Column::text("MinPods", "the fewest pods"),
        Column::text("MaxPods", "the most pods"),
        Column::text("Replicas", "how many pods there are"),
        Column::age(),
    ],
    storage_version_hash: "qwQve8ut294=".into(),
    ..Declaration::new(
        "autoscaling",
        &["v2", "v1"],
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        Scope::Namespaced,
    )
});

impl Kind for HorizontalPodAutoscaler {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = ensure(object, "spec");
        view::set_default(spec, "minReplicas", || 1.into());
        if view::items(spec, &["metrics"]).is_empty() {
            checks::set(spec, "metrics", json!([cpu_metric(DEFAULT_CPU_UTILIZATION)]));
        }
        if let Some(behavior) = spec.get_mut("behavior") {
            behavior::set_defaults(behavior);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        checks::set(object, "status", json!({"currentMetrics": null, "desiredReplicas": 0}));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_replicas(spec, &path, errors);
        let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
        // The only scalable kind of the core group.
        let may_lack_group = view::text(target, &["kind"]) == "ReplicationController";
        let target_path = path.child("scaleTargetRef");
        metrics::validate_reference(target, &target_path, errors);
        errors.ratcheted(ratchet::SCALE_TARGET_VERSION, |errors| {
            metrics::validate_version(target, may_lack_group, &target_path, errors);
        });
        let metrics_path = path.child("metrics");
        for (index, metric) in view::items(spec, &["metrics"]).iter().enumerate() {
            metrics::validate(metric, &metrics_path.index(index), errors);
        }
        if let Some(behavior) = spec.get("behavior") {
            behavior::validate(behavior, &path.child("behavior"), errors);
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let status = new.get("status").unwrap_or(&Value::Null);
        let counts = ["currentReplicas", "desiredReplicas"];
        checks::all_non_negative(status, &counts, &Path::root("status"), errors);
    }

    fn convert_in(&self, version: &str, object: Value) -> Value {
        if version == "v1" { conversion::v1_to_v2(&object) } else { object }
    }

    fn convert_out(&self, version: &str, object: Value) -> Value {
        if version == "v1" { conversion::v2_to_v1(&object) } else { object }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let target = ["kind", "name"].map(|field| view::text(object, &["spec", "scaleTargetRef", field]));
        let min = view::integer(object, &["spec", "minReplicas"]);
        let status = object.get("status").unwrap_or(&Value::Null);
        vec![
            view::name(object).into(),
            target.join("/").into(),
            targets::text(object).into(),
            min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()).into(),
            count(&object["spec"], "maxReplicas").into(),
            count(status, "currentReplicas").into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let object = json!({
            "type": "Object",
            "object": {
                "metric": {"name": "hits"},
                "describedObject": {"kind": "Service", "name": "web", "apiVersion": "a/b/c"},
                "target": {"type": "Value", "value": "1"},
            },
        });
        let target = |version: &str| json!({"kind": "Deployment", "name": "web", "apiVersion": version});
        vec![
            crate::samples::Stored::new(sample(json!({"metrics": [object]}))),
            crate::samples::Stored::new(sample(json!({"scaleTargetRef": target("v1")}))).refusing(
                json!({"spec": {"scaleTargetRef": {"apiVersion": "v2"}}}),
                "spec.scaleTargetRef.apiVersion",
                "FieldValueInvalid",
            ),
            crate::samples::Stored::new(sample(json!({
                "minReplicas": 0,
                "metrics": [{
                    "type": "External",
                    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}},
                }],
            })))
            .refusing(
                json!({"spec": {"minReplicas": -1}}),
                "spec.minReplicas",
                "FieldValueInvalid",
            ),
        ]
    }
}

/// A metric for CPU utilization, in percent of the requests.
pub(super) fn cpu_metric(percent: i64) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

fn validate_replicas(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let min = view::integer(spec, &["minReplicas"]);
    let max = count(spec, "maxReplicas");
    if let Some(min) = min.filter(|min| *min < 1) {
        let path = path.child("minReplicas");
        let error = FieldError::invalid(&path, min, "must be greater than or equal to 1");
        // Zero is valid only with a feature gate that is disabled here.
        errors.push(if min == 0 { error.unless(ratchet::MIN_REPLICAS) } else { error });
    }
    let max_path = path.child("maxReplicas");
    if max == 0 {
        errors.push(FieldError::required(&max_path, "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(FieldError::invalid(&max_path, max, "must be greater than or equal to 1"));
    }
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&max_path, max, detail));
    }
    if min == Some(0) && !measures_from_outside(spec) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path.child("metrics"), detail));
    }
}

/// Whether a metric is available without any pods.
fn measures_from_outside(spec: &Value) -> bool {
    let mut metrics = view::items(spec, &["metrics"]).iter();
    metrics.any(|metric| matches!(view::text(metric, &["type"]), "Object" | "External"))
}

#[cfg(any(test, feature = "samples"))]
fn sample(extra: Value) -> Value {
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        },
    });
    if let (Value::Object(fields), Value::Object(extra)) = (&mut object["spec"], extra) {
        fields.extend(extra);
    }
    object
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let refused = |extra: Value, field, reason| Refused::new(sample(extra), field, reason);
    let external = json!({
        "type": "External",
        "external": {
            "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "work"}}},
            "target": {"type": "AverageValue", "averageValue": "30"},
        },
    });
    Samples {
        valid: vec![
            sample(json!({
                "minReplicas": 2,
                "metrics": [cpu_metric(50), external],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
            })),
            sample(json!({})),
            sample(json!({"scaleTargetRef": {"kind": "ReplicationController", "name": "web"}})),
        ],
        invalid: vec![
            refused(json!({"maxReplicas": 0}), "spec.maxReplicas", "FieldValueRequired"),
            refused(json!({"maxReplicas": -1}), "spec.maxReplicas", "FieldValueInvalid"),
            refused(json!({"minReplicas": 6}), "spec.maxReplicas", "FieldValueInvalid"),
            refused(json!({"minReplicas": 0}), "spec.minReplicas", "FieldValueInvalid"),
            refused(json!({"minReplicas": 0}), "spec.metrics", "FieldValueForbidden"),
            refused(
                json!({"scaleTargetRef": {"kind": "Deployment", "apiVersion": "apps/v1"}}),
                "spec.scaleTargetRef.name",
                "FieldValueRequired",
            ),
            refused(
                json!({"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "v1"}}),
                "spec.scaleTargetRef.apiVersion",
                "FieldValueInvalid",
            ),
            refused(json!({"metrics": [{"type": "x"}]}), "spec.metrics[0].type", "FieldValueNotSupported"),
            refused(json!({"metrics": [{"type": "Pods"}]}), "spec.metrics[0].pods", "FieldValueRequired"),
            refused(
                json!({"metrics": [cpu_metric(0)]}),
                "spec.metrics[0].resource.target.averageUtilization",
                "FieldValueInvalid",
            ),
            refused(
                json!({"behavior": {"scaleUp": {"policies": []}}}),
                "spec.behavior.scaleUp.policies",
                "FieldValueRequired",
            ),
        ],
        updates: vec![json!({"spec": {"maxReplicas": 9}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"maxReplicas": 1}}),
            "spec.maxReplicas",
            "FieldValueInvalid",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_metric_is_cpu() {
        let mut object = sample(json!({}));
        HorizontalPodAutoscaler.set_defaults(&mut object);
        assert_eq!(object["spec"]["metrics"], json!([cpu_metric(80)]));
        assert_eq!(object["spec"]["minReplicas"], 1);
        assert_eq!(object["spec"].get("behavior"), None);
        let cells = HorizontalPodAutoscaler.cells(&object, 0);
        assert_eq!(cells[1..4], [json!("Deployment/web"), json!("cpu: <unknown>/80%"), json!("1")]);
    }
}
