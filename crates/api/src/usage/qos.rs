//! Quality of service (QoS) classes of pods.

use coracle_meta::view;
use serde_json::Value;

use super::{Amounts, amounts};

/// The QoS class of a pod, which follows from the resources of its containers.
///
/// Guaranteed if requests equal limits for both CPU and memory; BestEffort if neither is set; otherwise Burstable.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut is_guaranteed = true;
    if let Some(own) = spec.get("resources") {
        add(&mut requests, own, "requests");
        let limited = add(&mut limits, own, "limits");
        is_guaranteed = limited == 2 || view::fields(own, &["limits"]).next().is_none();
    } else {
        for list in ["containers", "initContainers"] {
            for container in view::items(spec, &[list]) {
                let own = container.get("resources").unwrap_or(&Value::Null);
                add(&mut requests, own, "requests");
                is_guaranteed &= add(&mut limits, own, "limits") == 2;
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds positive CPU and memory quantities; returns their number.
fn add(totals: &mut Amounts, resources: &Value, list: &str) -> usize {
    let mut own = amounts(resources, &[list]);
    own.retain(|resource, amount| matches!(resource.as_str(), "cpu" | "memory") && amount.sign() > 0);
    super::add(totals, &own);
    own.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes() {
        let all = json!({"cpu": "1", "memory": "1Gi"});
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "0"}}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": all, "requests": {"cpu": "1000m", "memory": "1Gi"}}), "Guaranteed"),
            (json!({"limits": all, "requests": {"cpu": "500m", "memory": "1Gi"}}), "Burstable"),
        ] {
            let pod = json!({"spec": {"containers": [{"resources": resources}]}});
            assert_eq!(qos_class(&pod), class, "{pod}");
        }
        let pod = json!({"spec": {"resources": {"limits": all, "requests": all}, "containers": [{}]}});
        assert_eq!(qos_class(&pod), "Guaranteed");
    }
}
