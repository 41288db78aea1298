//! Computes the status of a quota. Pure.

use coracle_api::usage::{self, Amounts, Meter, amounts};
use coracle_meta::quantity::{Format, Quantity};
use coracle_meta::time::Time;
use coracle_meta::view;
use serde_json::{Value, json};

use crate::ownership_graph::Resource;

/// Kinds whose usage is more than their number, by group and plural. All are served as `v1`.
const METERED: [(&str, &str); 4] =
    [("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("resource.k8s.io", "resourceclaims")];

/// Usage of the limited resources.
#[derive(Debug)]
pub(super) struct Usage {
    /// Names of the limited resources.
    limited: Vec<String>,
    meters: Vec<(Resource, Meter)>,
    sums: Amounts,
}

impl Usage {
    /// Starts with no usage.
    pub(super) fn of(quota: &Value, now: Time) -> Self {
        let limited: Vec<String> = amounts(quota, &["spec", "hard"]).into_keys().collect();
        let counts = |meter: &Meter| limited.iter().any(|name| meter.counts(name));
        let meters = METERED.iter().map(|(group, plural)| {
            let resource = Resource { group: (*group).into(), plural: (*plural).into() };
            (resource, Meter::of(group, plural, now))
        });
        let meters = meters.filter(|(_, meter)| counts(meter)).collect();
        let mut usage = Self { limited, meters, sums: Amounts::new() };
        usage.sums = usage
            .limited
            .iter()
            .filter(|name| usage.is_metered(name))
            .map(|name| (name.clone(), zero()))
            .collect();
        usage
    }

    /// Kinds whose objects must be read.
    pub(super) fn metered(&self) -> Vec<(Resource, Meter)> {
        self.meters.clone()
    }

    /// Adds the usage of an object, if it is in the quota's scope.
    pub(super) fn add(&mut self, meter: &Meter, quota: &Value, object: &Value) {
        if !meter.is_in_scope(object, quota) {
            return;
        }
        let mut used = meter.usage(object);
        used.retain(|name, _| self.limited.contains(name));
        // A zero sum takes the format of the first amount.
        self.sums.retain(|name, sum| !(sum.is_zero() && used.contains_key(name)));
        usage::add(&mut self.sums, &used);
    }

    /// Resources limited by number only, and the kinds to count.
    pub(super) fn counted(&self) -> Vec<(String, Resource)> {
        let names = self.limited.iter().filter(|name| !self.is_metered(name));
        names.filter_map(|name| Some((name.clone(), counted(name)?))).collect()
    }

    /// Sets a number of objects. Unknown kinds keep their number.
    pub(super) fn set_count(&mut self, quota: &Value, name: String, number: u32) {
        // Scopes apply to pods and claims only.
        let number = if has_scopes(quota) { 0 } else { number };
        self.sums.insert(name, Quantity::new(number.into(), Format::DecimalSi));
    }

    fn is_metered(&self, name: &str) -> bool {
        self.meters.iter().any(|(_, meter)| meter.counts(name))
    }
}

/// The kind that a resource name counts.
fn counted(name: &str) -> Option<Resource> {
    let resource = match name.strip_prefix("count/") {
        Some(resource) => resource,
        // Kinds with a resource name of their own.
        None if Meter::of("", name, Time(0)).counts(name) => name,
        None => return None,
    };
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    Some(Resource { group: group.into(), plural: plural.into() })
}

fn has_scopes(quota: &Value) -> bool {
    !view::items(quota, &["spec", "scopes"]).is_empty()
        || !view::items(quota, &["spec", "scopeSelector", "matchExpressions"]).is_empty()
}

fn zero() -> Quantity {
    Quantity::new(0, Format::DecimalSi)
}

/// The quota with its new status; `None` if the status is up to date.
pub(super) fn plan(mut quota: Value, usage: Usage) -> Option<Value> {
    let (wanted, hard) = (amounts(&quota, &["spec", "hard"]), usage::hard(&quota));
    let before = usage::used(&quota);
    let mut used = before.clone();
    used.extend(usage.sums);
    used.retain(|name, _| wanted.contains_key(name));
    let is_set = |field| view::at(&quota, &["status", field]).is_some();
    if wanted == hard && used == before && is_set("hard") && is_set("used") {
        return None;
    }
    let used: Value = used
        .iter()
        .map(|(name, amount)| (name.clone(), json!(amount.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let hard = quota.pointer("/spec/hard").cloned().unwrap_or_else(|| json!({}));
    quota["status"] = json!({"hard": hard, "used": used});
    Some(quota)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str, phase: &str) -> Value {
        let resources = json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": phase}})
    }

    /// Status of a quota in a namespace with these pods, and this number of objects of each other kind.
    fn status(spec: Value, pods: &[Value]) -> Value {
        let quota = json!({"spec": spec});
        let mut usage = Usage::of(&quota, Time(0));
        for (resource, meter) in usage.metered() {
            if &*resource.plural == "pods" {
                pods.iter().for_each(|pod| usage.add(&meter, &quota, pod));
            }
        }
        for (name, resource) in usage.counted() {
            if &*resource.plural != "unknown" {
                usage.set_count(&quota, name, 7);
            }
        }
        plan(quota, usage).unwrap()["status"].clone()
    }

    #[test]
    fn limited_resources_are_counted() {
        let hard = json!({
            "pods": "5", "requests.cpu": "1", "requests.memory": "10Gi", "services": "2", "secrets": "9",
            "count/deployments.apps": "9", "count/boats.example.org": "9", "count/unknown.example.org": "1",
        });
        let pods = [pod("100m", "Running"), pod("200m", "Pending"), pod("400m", "Succeeded")];
        let status = status(json!({"hard": hard}), &pods);
        let used = json!({
            "pods": "2", "requests.cpu": "300m", "requests.memory": "2Gi", "services": "0", "secrets": "7",
            "count/deployments.apps": "7", "count/boats.example.org": "7",
        });
        assert_eq!(status, json!({"hard": hard, "used": used}));
    }

    #[test]
    fn scopes_apply_to_pods_only() {
        let spec = json!({"hard": {"pods": "5", "count/secrets": "1"}, "scopes": ["BestEffort"]});
        let best_effort = json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
        let status = status(spec, &[pod("1", "Running"), best_effort]);
        assert_eq!(status["used"], json!({"pods": "1", "count/secrets": "0"}));
    }

    #[test]
    fn unchanged_status_is_not_written() {
        let said = |used: Value, hard: Value| {
            let quota = json!({"spec": {"hard": {"pods": "1000m"}}, "status": {"hard": hard, "used": used}});
            let usage = Usage::of(&quota, Time(0));
            plan(quota, usage).map(|quota| quota["status"].clone())
        };
        assert_eq!(said(json!({"pods": "0"}), json!({"pods": "1"})), None);
        let counted = Some(json!({"hard": {"pods": "1000m"}, "used": {"pods": "0"}}));
        assert_eq!(said(json!({"pods": "3"}), json!({"pods": "1"})), counted);
        assert_eq!(said(json!({"pods": "0", "gone": "1"}), json!({"pods": "1"})), counted);
        assert_eq!(said(json!({"pods": "0"}), json!({"pods": "2"})), counted);
        assert_eq!(said(Value::Null, Value::Null), counted);
    }
}
