//! Defaults that pods get, and pod templates do not.

use serde_json::{Map, Value, json};

use crate::kinds::core::pod_spec::defaults::{each, within};
use crate::kinds::core::pod_spec::{self, aggregate, resources};
use crate::view;

/// Sets the defaults of a pod.
pub(super) fn set(pod: &mut Value) {
    let Value::Object(fields) = pod else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    pod_spec::set_spec_defaults(spec);
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| within(container, "resources", requests_from_limits));
    }
    if spec.get("resources").is_some() {
        huge_page_limits(spec);
        pod_requests(spec);
    }
    if view::integer(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    view::set_default(spec, "enableServiceLinks", || true.into());
    if view::is_true(spec, &["hostNetwork"]) {
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| each(container, "ports", host_port));
        }
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Value::Object(fields) = resources else { return };
    let requests = fields.entry("requests").or_insert_with(|| json!({}));
    for (resource, amount) in limits {
        view::set_default(requests, &resource, || amount);
    }
}

/// Adds the huge pages in the limits of the containers to the limits of the pod.
fn huge_page_limits(spec: &mut Value) {
    let has = |list: &str| view::fields(spec, &["resources", list]).next().is_some();
    if !has("limits") && !has("requests") {
        return;
    }
    let pages: Vec<(String, Value)> = aggregate::of_containers(spec, "limits")
        .into_iter()
        .filter(|(resource, _)| resources::is_huge_pages(resource))
        .filter(|(resource, _)| view::at(spec, &["resources", "requests", resource]).is_none())
        .map(|(resource, amount)| (resource.to_owned(), amount.to_string().into()))
        .collect();
    add_missing(spec, "limits", pages);
}

/// Sets missing requests of a pod with limits to the sum over its containers, or else to its limits.
fn pod_requests(spec: &mut Value) {
    let limits: Map<String, Value> = view::fields(spec, &["resources", "limits"])
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if limits.is_empty() {
        return;
    }
    let needed = aggregate::of_containers(spec, "requests").into_iter();
    let needed: Vec<(String, Value)> = needed
        .filter(|(name, _)| resources::is_pod_level(name) && resources::may_be_overcommitted(name))
        .map(|(name, amount)| (name.to_owned(), amount.to_string().into()))
        .collect();
    add_missing(spec, "requests", needed);
    let limits = limits.into_iter().filter(|(name, _)| resources::is_pod_level(name)).collect();
    add_missing(spec, "requests", limits);
}

fn add_missing(spec: &mut Value, list: &str, amounts: Vec<(String, Value)>) {
    let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
    if amounts.is_empty() {
        return;
    }
    let list = resources.entry(list).or_insert_with(|| json!({}));
    for (resource, amount) in amounts {
        view::set_default(list, &resource, || amount);
    }
}

fn host_port(port: &mut Value) {
    let number = port.get("containerPort").cloned();
    if let (Value::Object(fields), Some(number)) = (port, number)
        && fields.get("hostPort").is_none_or(|found| *found == 0)
    {
        fields.insert("hostPort".to_owned(), number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_requests_default_to_limits() {
        let mut pod = json!({"spec": {
            "hostNetwork": true,
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            "containers": [{
                "name": "a",
                "image": "b",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Mi"}}
            }]
        }});
        set(&mut pod);
        let spec = &pod["spec"];
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Mi"}));
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "1", "memory": "1Mi"}));
        assert_eq!(spec["enableServiceLinks"], true);
    }
}
