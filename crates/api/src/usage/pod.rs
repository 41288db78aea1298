//! Requests and limits of a pod.
//!
//! Init containers run one after the other before the other containers, so the largest of them counts; restartable
//! init containers (sidecars) count together with the containers and with the init containers after them.

use coracle_meta::view;
use serde_json::Value;

use super::{Amounts, add, amounts};

/// Requests or limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests.
    Requests,
    /// Limits.
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Source of the resources of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The spec.
    Spec,
    /// The larger of spec and status: while a pod is resized, both sizes count.
    SpecAndStatus,
}

/// The sum over the containers of a pod; for CPU and memory, the pod-level resources if set.
pub fn of_containers_or_pod(pod: &Value, side: Side) -> Amounts {
    let mut total = of_containers(pod, side, Basis::Spec);
    override_by_pod(&mut total, pod, side, |name| matches!(name, "cpu" | "memory"));
    total
}

/// The total of a pod, including the overhead of its runtime class.
pub fn of_pod(pod: &Value, side: Side, basis: Basis) -> Amounts {
    let mut total = of_containers(pod, side, basis);
    override_by_pod(&mut total, pod, side, is_pod_level);
    let mut overhead = amounts(pod, &["spec", "overhead"]);
    if side == Side::Limits {
        // The overhead does not create a limit for a resource without one.
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut total, &overhead);
    total
}

/// Whether a resource can be set at pod level.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn raise(total: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        if total.get(&name).is_none_or(|so_far| amount > *so_far) {
            total.insert(name, amount);
        }
    }
}

fn override_by_pod(total: &mut Amounts, pod: &Value, side: Side, counts: impl Fn(&str) -> bool) {
    let own = amounts(pod, &["spec", "resources", side.field()]);
    total.extend(own.into_iter().filter(|(name, _)| counts(name)));
}

fn of_containers(pod: &Value, side: Side, basis: Basis) -> Amounts {
    let mut total = Amounts::new();
    for container in view::items(pod, &["spec", "containers"]) {
        add(&mut total, &of_container(pod, container, side, basis));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in view::items(pod, &["spec", "initContainers"]) {
        let is_sidecar = view::text(container, &["restartPolicy"]) == "Always";
        let basis = if is_sidecar { basis } else { Basis::Spec };
        let mut own = of_container(pod, container, side, basis);
        if is_sidecar {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut largest, own);
    }
    raise(&mut total, largest);
    total
}

fn of_container(pod: &Value, container: &Value, side: Side, basis: Basis) -> Amounts {
    let wanted = amounts(container, &["resources", side.field()]);
    if basis == Basis::Spec {
        return wanted;
    }
    let status = status_of(pod, view::text(container, &["name"]));
    let Some(status) = status.filter(|status| view::at(status, &["resources"]).is_some()) else {
        return wanted;
    };
    let mut effective = if is_infeasible(pod) { Amounts::new() } else { wanted };
    raise(&mut effective, amounts(status, &["resources", side.field()]));
    if side == Side::Requests {
        raise(&mut effective, amounts(status, &["allocatedResources"]));
    }
    effective
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|list| view::items(pod, &["status", list]))
        .find(|status| view::text(status, &["name"]) == container)
}

/// Whether the node has reported a resize as infeasible.
fn is_infeasible(pod: &Value) -> bool {
    view::items(pod, &["status", "conditions"])
        .iter()
        .find(|condition| view::text(condition, &["type"]) == "PodResizePending")
        .is_some_and(|condition| view::text(condition, &["reason"]) == "Infeasible")
}

#[cfg(test)]
mod tests {
    use coracle_meta::quantity::Quantity;
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    fn cpu(pod: &Value, side: Side, basis: Basis) -> String {
        of_pod(pod, side, basis).get("cpu").map_or_else(String::new, Quantity::to_string)
    }

    #[test]
    fn containers_add_up_and_the_largest_init_container_counts() {
        let pod = |init: Value| json!({"spec": {"containers": [container("1"), container("500m")], "initContainers": init}});
        let check = |init: Value, expected: &str| {
            assert_eq!(cpu(&pod(init), Side::Requests, Basis::Spec), expected);
        };
        check(json!([container("1"), container("1")]), "1500m");
        check(json!([container("1"), container("2")]), "2");
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = "Always".into();
        check(json!([sidecar, container("1")]), "2500m");
        check(json!([sidecar, container("3")]), "4");
    }

    #[test]
    fn pod_level_resources_and_overhead_count() {
        let mut pod =
            json!({"spec": {"containers": [container("1")], "overhead": {"cpu": "10m", "memory": "1Mi"}}});
        assert_eq!(cpu(&pod, Side::Requests, Basis::Spec), "1010m");
        assert_eq!(of_pod(&pod, Side::Limits, Basis::Spec).len(), 1);
        pod["spec"]["resources"] = json!({"requests": {"cpu": "3", "example.com/x": "1"}});
        assert_eq!(cpu(&pod, Side::Requests, Basis::Spec), "3010m");
        assert_eq!(of_containers_or_pod(&pod, Side::Requests)["cpu"].to_string(), "3");
    }

    #[test]
    fn resized_pod_counts_the_larger_size() {
        let mut pod = json!({
            "spec": {"containers": [container("1")]},
            "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}}]},
        });
        assert_eq!(cpu(&pod, Side::Requests, Basis::SpecAndStatus), "2");
        assert_eq!(cpu(&pod, Side::Limits, Basis::SpecAndStatus), "3");
        pod["spec"]["containers"] = json!([container("5")]);
        assert_eq!(cpu(&pod, Side::Requests, Basis::SpecAndStatus), "5");
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(cpu(&pod, Side::Requests, Basis::SpecAndStatus), "2");
    }
}
