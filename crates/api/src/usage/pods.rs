//! Quota evaluation of pods.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::name;
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_meta::view;
use serde_json::Value;

use super::meter::{count, one};
use super::pod::{Basis, Side, is_pod_level, of_pod};
use super::{Amounts, amounts};

/// Resources that quotas count under their own names.
const NAMED: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// Resources that every container must state if a quota limits them.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether pods use this resource of a quota.
pub(super) fn counts(resource: &str) -> bool {
    let is_extended = |name: &str| !is_native(name) || name.starts_with(DEVICE_CLASS_PREFIX);
    NAMED.contains(&resource)
        || resource.starts_with("hugepages-")
        || resource.starts_with("requests.hugepages-")
        || resource.strip_prefix("requests.").is_some_and(is_extended)
}

/// The usage of a pod. One that has ended, or should have, only counts as an object.
pub(super) fn usage(pod: &Value, now: Time) -> Amounts {
    let mut usage = count("count/pods", 1);
    if is_active(pod, now) {
        let total = |side| of_pod(pod, side, Basis::SpecAndStatus);
        usage.extend(compute(&total(Side::Requests), &total(Side::Limits)));
    }
    usage
}

fn is_active(pod: &Value, now: Time) -> bool {
    let meta = Meta::of(pod);
    let is_overdue = match (meta.deletion_timestamp(), meta.deletion_grace_period_seconds()) {
        (Some(end), Some(grace_s)) => now.0 > end.0.saturating_add(grace_s),
        _ => false,
    };
    !is_overdue && !matches!(view::text(pod, &["status", "phase"]), "Failed" | "Succeeded")
}

/// Requests and limits under the names that quotas have for them.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), one())]);
    for (name, amount) in requests {
        let is_basic = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        let is_huge_page = name.starts_with("hugepages-");
        if is_basic || is_huge_page {
            usage.insert(name.clone(), amount.clone());
        }
        if is_basic || is_huge_page || is_extended(name) {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), limit.clone());
        }
    }
    usage
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    let is_foreign = !is_native(name) && !name.starts_with("requests.");
    name.starts_with(DEVICE_CLASS_PREFIX)
        || is_foreign && name::qualified_name(&format!("requests.{name}")).is_empty()
}

/// The limited resources that some container does not state.
pub(super) fn missing(pod: &Value, limited: &[&str]) -> Option<String> {
    let says_itself = ["requests", "limits"]
        .iter()
        .any(|side| view::fields(pod, &["spec", "resources", side]).any(|(name, _)| is_pod_level(name)));
    if says_itself {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in view::items(pod, &["spec", list]) {
            let own = |side| amounts(container, &["resources", side]);
            let stated = compute(&own("requests"), &own("limits"));
            for name in REQUIRED.iter().filter(|name| limited.contains(name) && !stated.contains_key(**name))
            {
                missing.entry(name).or_default().insert(view::text(container, &["name"]));
            }
        }
    }
    let part = |(name, containers): (&&str, &BTreeSet<&str>)| {
        let containers: Vec<&str> = containers.iter().copied().collect();
        format!("{name} for: {}", containers.join(","))
    };
    let parts: Vec<String> = missing.iter().map(part).collect();
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_have_the_names_of_quotas() {
        let resources = json!({
            "requests": {"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "2", "ephemeral-storage": "1Gi"},
            "limits": {"cpu": "2", "example.com/gpu": "2"},
        });
        let pod = json!({"spec": {"containers": [{"resources": resources}]}});
        let printed: Vec<String> =
            usage(&pod, Time(0)).iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(
            printed,
            [
                "count/pods=1",
                "cpu=1",
                "ephemeral-storage=1Gi",
                "hugepages-2Mi=4Mi",
                "limits.cpu=2",
                "pods=1",
                "requests.cpu=1",
                "requests.ephemeral-storage=1Gi",
                "requests.example.com/gpu=2",
                "requests.hugepages-2Mi=4Mi",
            ]
        );
        assert!(usage(&pod, Time(0)).keys().all(|name| counts(name)));
        assert!(!counts("services") && !counts("requests.storage") && !counts("example.com/gpu"));
    }

    #[test]
    fn ended_pod_counts_only_as_object() {
        let names = |pod: Value| usage(&pod, Time(100)).into_keys().collect::<Vec<_>>();
        assert_eq!(names(json!({"status": {"phase": "Failed"}})), ["count/pods"]);
        let going = |grace_s: i64| json!({"metadata": {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": grace_s}});
        assert_eq!(names(going(30)), ["count/pods"]);
        assert_eq!(names(going(60)), ["count/pods", "pods"]);
    }

    #[test]
    fn containers_must_state_limited_resources() {
        let pod = |own: Value| {
            json!({"spec": {
                "resources": own,
                "containers": [{"name": "b", "resources": {"requests": {"cpu": "1"}}}, {"name": "a"}],
            }})
        };
        let limited = ["limits.cpu", "requests.cpu", "pods", "ephemeral-storage"];
        let message = "must specify limits.cpu for: a,b; requests.cpu for: a";
        assert_eq!(missing(&pod(json!({})), &limited).as_deref(), Some(message));
        assert_eq!(missing(&pod(json!({"requests": {"cpu": "1"}})), &limited), None);
        assert_eq!(missing(&pod(json!({})), &["pods"]), None);
    }
}
