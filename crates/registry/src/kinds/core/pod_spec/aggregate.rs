//! Total resources of the containers of a pod.

use std::collections::BTreeMap;

use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::{container, resources};
use crate::view;

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// Sums the `requests` or `limits` of all containers.
///
/// Init containers run one at a time, so only the largest amount of any of them counts. Restartable ones (sidecars)
/// keep running, so they count together with everything that starts later.
pub(crate) fn of_containers<'a>(spec: &'a Value, list: &str) -> Amounts<'a> {
    let of = |container: &'a Value| {
        container.get("resources").map_or_else(Amounts::new, |found| resources::amounts(found, list))
    };
    let mut total = Amounts::new();
    for container in view::items(spec, &["containers"]) {
        add(&mut total, of(container));
    }
    let (mut staying, mut largest) = (Amounts::new(), Amounts::new());
    for container in view::items(spec, &["initContainers"]) {
        let mut needed = of(container);
        if container::is_restartable(container) {
            add(&mut total, needed.clone());
            add(&mut staying, needed);
            needed = staying.clone();
        } else {
            add(&mut needed, staying.clone());
        }
        raise(&mut largest, needed);
    }
    raise(&mut total, largest);
    total
}

fn add<'a>(total: &mut Amounts<'a>, more: Amounts<'a>) {
    for (resource, amount) in more {
        let sum = total.get(resource).map_or(Some(amount.clone()), |so_far| so_far.checked_add(&amount));
        // A sum with more digits than can be represented exceeds any limit anyway.
        total.insert(resource, sum.unwrap_or(amount));
    }
}

/// Raises each amount to the larger of both.
fn raise<'a>(total: &mut Amounts<'a>, other: Amounts<'a>) {
    for (resource, amount) in other {
        if total.get(resource).is_none_or(|so_far| amount > *so_far) {
            total.insert(resource, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_count_by_the_largest_request() {
        let requesting = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "initContainers": [
                {"resources": requesting("3")},
                {"restartPolicy": "Always", "resources": requesting("500m")},
                {"resources": requesting("1")}
            ],
            "containers": [{"resources": requesting("1")}, {"resources": requesting("200m")}]
        });
        assert_eq!(of_containers(&spec, "requests")["cpu"].to_string(), "3");
        let spec = json!({
            "initContainers": [{"restartPolicy": "Always", "resources": requesting("500m")}],
            "containers": [{"resources": requesting("1")}]
        });
        assert_eq!(of_containers(&spec, "requests")["cpu"].to_string(), "1500m");
    }
}
