//! Conversion between autoscaling/v1 and v2.
//!
//! v1 has only one metric, CPU utilization. All other fields of v2 are kept in annotations, so that a round trip
//! loses nothing. The annotations are those of kube-apiserver, including the order of fields.

mod annotation;
mod metric;

use coracle_meta::object::{Meta, MetaMut};
use serde_json::{Map, Value, json};

use super::horizontal_pod_autoscaler::{DEFAULT_CPU_UTILIZATION, cpu_metric};
use crate::kinds::apps::checks::{ensure, set};
use crate::view;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// All annotations of the conversion, two of which only older servers wrote.
const CARRIERS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    BEHAVIOR,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Converts an object from v2 to v1.
pub fn v2_to_v1(object: &Value) -> Value {
    let mut v1 = object.clone();
    set(&mut v1, "apiVersion", "autoscaling/v1".into());
    drop_carriers(&mut v1);
    if let Some(spec) = object.get("spec") {
        set(&mut v1, "spec", spec_to_v1(spec));
    }
    if let Some(status) = object.get("status") {
        set(&mut v1, "status", status_to_v1(status));
    }
    let carried = carried(object);
    if let Some(mut meta) = MetaMut::of(&mut v1) {
        for (name, text) in carried {
            meta.set_annotation(name, &text);
        }
    }
    v1
}

/// Converts an object from v1 to v2.
pub fn v1_to_v2(object: &Value) -> Value {
    let mut v2 = object.clone();
    set(&mut v2, "apiVersion", "autoscaling/v2".into());
    drop_carriers(&mut v2);
    let meta = Meta::of(object);
    let carried =
        |name: &str| meta.annotation(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let spec = ensure(&mut v2, "spec");
    let cpu = take(spec, "targetCPUUtilizationPercentage").as_ref().and_then(Value::as_i64);
    let others = carried(METRICS).and_then(|metrics| metric::all_to_v2(&metrics, &metric::SPEC));
    let mut metrics = others.unwrap_or_default();
    metrics.extend(cpu.map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_CPU_UTILIZATION));
    }
    set(spec, "metrics", metrics.into());
    if let Some(behavior) = carried(BEHAVIOR).as_ref().and_then(annotation::read_behavior) {
        set(spec, "behavior", behavior);
    }
    let current = carried(CURRENT_METRICS).and_then(|metrics| metric::all_to_v2(&metrics, &metric::STATUS));
    let conditions = carried(CONDITIONS).filter(Value::is_array);
    if v2.get("status").is_some() || current.is_some() || conditions.is_some() {
        status_to_v2(ensure(&mut v2, "status"), current, conditions);
    }
    v2
}

fn spec_to_v1(spec: &Value) -> Value {
    let mut v1 = Map::new();
    for field in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        v1.extend(spec.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    let cpu = view::items(spec, &["metrics"]).iter().find_map(cpu_utilization);
    v1.extend(cpu.map(|percent| ("targetCPUUtilizationPercentage".to_owned(), percent.clone())));
    Value::Object(v1)
}

/// The target utilization of a metric, if it is the one that v1 has a field for.
fn cpu_utilization(metric: &Value) -> Option<&Value> {
    let is_cpu =
        view::text(metric, &["type"]) == "Resource" && view::text(metric, &["resource", "name"]) == "cpu";
    view::at(metric, &["resource", "target", "averageUtilization"]).filter(|_| is_cpu)
}

fn status_to_v1(status: &Value) -> Value {
    let mut v1 = status.clone();
    let current = take(&mut v1, "currentMetrics").unwrap_or(Value::Null);
    take(&mut v1, "conditions");
    let cpu = view::items(&current, &[]).iter().filter(|metric| {
        view::text(metric, &["type"]) == "Resource" && view::text(metric, &["resource", "name"]) == "cpu"
    });
    let percent =
        cpu.filter_map(|metric| view::at(metric, &["resource", "current", "averageUtilization"])).next_back();
    if let Some(percent) = percent {
        set(&mut v1, "currentCPUUtilizationPercentage", percent.clone());
    }
    // v1 always writes both.
    for field in ["currentReplicas", "desiredReplicas"] {
        view::set_default(&mut v1, field, || 0.into());
    }
    v1
}

fn status_to_v2(status: &mut Value, carried: Option<Vec<Value>>, conditions: Option<Value>) {
    if view::integer(status, &["currentReplicas"]) == Some(0) {
        take(status, "currentReplicas");
    }
    let cpu = take(status, "currentCPUUtilizationPercentage").map(|percent| {
        let resource = json!({"name": "cpu", "current": {"averageUtilization": percent}});
        vec![json!({"type": "Resource", "resource": resource})]
    });
    // v1 always writes them.
    set(status, "currentMetrics", carried.or(cpu).into());
    if let Some(conditions) = conditions {
        set(status, "conditions", conditions);
    }
}

/// The annotations for fields that v1 does not have.
fn carried(object: &Value) -> Vec<(&'static str, String)> {
    let metrics = view::items(object, &["spec", "metrics"]).iter();
    let others: Vec<_> = metrics.filter(|metric| cpu_utilization(metric).is_none()).collect();
    let current: Vec<_> = view::items(object, &["status", "currentMetrics"]).iter().collect();
    let conditions = view::items(object, &["status", "conditions"]);
    let mut carried = Vec::new();
    if !others.is_empty() {
        carried.push((METRICS, metric::all_to_text(&others, &metric::SPEC)));
    }
    if !current.is_empty() {
        carried.push((CURRENT_METRICS, metric::all_to_text(&current, &metric::STATUS)));
    }
    if let Some(behavior) = view::at(object, &["spec", "behavior"]) {
        carried.push((BEHAVIOR, annotation::behavior_text(behavior)));
    }
    if !conditions.is_empty() {
        carried.push((CONDITIONS, annotation::conditions_text(conditions)));
    }
    carried
}

fn drop_carriers(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !CARRIERS.contains(&name.as_str()));
        if annotations.is_empty() {
            take(metadata, "annotations");
        }
    }
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut().and_then(|fields| fields.remove(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rich() -> Value {
        json!({
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "annotations": {"mine": "x"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1,
                "maxReplicas": 4,
                "metrics": [
                    {"type": "Pods", "pods": {
                        "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "1k"},
                    }},
                    {"type": "Object", "object": {
                        "describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"},
                        "metric": {"name": "requests"},
                        "target": {"type": "Value", "value": "2k"},
                    }},
                    {"type": "External", "external": {
                        "metric": {"name": "queue"},
                        "target": {"type": "AverageValue", "averageValue": "30"},
                    }},
                    {"type": "ContainerResource", "containerResource": {
                        "name": "memory", "container": "app",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    }},
                    cpu_metric(50),
                ],
                "behavior": {"scaleDown": {
                    "stabilizationWindowSeconds": 60,
                    "selectPolicy": "Min",
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}],
                }},
            },
            "status": {
                "currentReplicas": 2,
                "desiredReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 40, "averageValue": "100m"},
                }}],
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "Ok", "message": "m",
                    "lastTransitionTime": "2024-01-01T00:00:00Z"}],
            },
        })
    }

    #[test]
    fn round_trip_is_lossless() {
        let v1 = v2_to_v1(&rich());
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(v1["status"]["currentCPUUtilizationPercentage"], 40);
        assert_eq!(v1["spec"].get("metrics"), None);
        assert_eq!(v1["status"].get("conditions"), None);
        assert_eq!(v1_to_v2(&v1), rich());
    }

    #[test]
    fn annotations_equal_those_of_kube_apiserver() {
        let annotations = &v2_to_v1(&rich())["metadata"]["annotations"];
        let metrics = concat!(
            r#"[{"type":"Pods","pods":{"metricName":"hits","targetAverageValue":"1k","#,
            r#""selector":{"matchLabels":{"a":"b"}}}},"#,
            r#"{"type":"Object","object":{"target":{"kind":"Ingress","name":"i","#,
            r#""apiVersion":"networking.k8s.io/v1"},"metricName":"requests","targetValue":"2k"}},"#,
            r#"{"type":"External","external":{"metricName":"queue","targetAverageValue":"30"}},"#,
            r#"{"type":"ContainerResource","containerResource":{"name":"memory","#,
            r#""targetAverageUtilization":60,"container":"app"}}]"#,
        );
        assert_eq!(annotations[METRICS], metrics);
        let current = concat!(
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"#,
            r#""currentAverageValue":"100m"}}]"#,
        );
        assert_eq!(annotations[CURRENT_METRICS], current);
        let behavior = concat!(
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Min","#,
            r#""Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}],"Tolerance":null}}"#,
        );
        assert_eq!(annotations[BEHAVIOR], behavior);
        let conditions = concat!(
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","#,
            r#""reason":"Ok","message":"m"}]"#,
        );
        assert_eq!(annotations[CONDITIONS], conditions);
    }

    #[test]
    fn v1_object_has_a_cpu_metric() {
        let v2 = v1_to_v2(&json!({"spec": {"maxReplicas": 3}}));
        assert_eq!(v2["spec"]["metrics"], json!([cpu_metric(80)]));
        assert_eq!(v2.get("status"), None);
        let measured = v1_to_v2(&json!({"status": {"desiredReplicas": 1}}));
        assert_eq!(measured["status"], json!({"currentMetrics": null, "desiredReplicas": 1}));
        let v2 = v1_to_v2(&json!({
            "metadata": {"annotations": {METRICS: "{", BEHAVIOR: "{}"}},
            "spec": {"targetCPUUtilizationPercentage": 60},
            "status": {"currentCPUUtilizationPercentage": 10},
        }));
        assert_eq!(v2["spec"], json!({"metrics": [cpu_metric(60)]}));
        assert_eq!(v2["metadata"], json!({}));
        let resource = json!({"name": "cpu", "current": {"averageUtilization": 10}});
        assert_eq!(v2["status"]["currentMetrics"], json!([{"type": "Resource", "resource": resource}]));
    }
}
