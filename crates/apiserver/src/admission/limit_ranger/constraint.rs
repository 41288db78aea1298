//! The bounds of a LimitRange, and the messages for their violations.

use coracle_api::usage::pod::{Side, of_containers_or_pod};
use coracle_api::usage::{Amounts, amounts};
use coracle_meta::quantity::Quantity;
use coracle_registry::view;
use serde_json::Value;

/// The largest amount whose thousandths fit 64 bits.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// The violations of a pod.
pub(super) fn of_pod(limits: &[Value], pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in limits {
        match view::text(limit, &["type"]) {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in view::items(pod, &["spec", list]) {
                        let requests = amounts(container, &["resources", "requests"]);
                        let limits = amounts(container, &["resources", "limits"]);
                        Bounds(limit).check(&requests, &limits, &mut faults);
                    }
                }
            }
            "Pod" => {
                let requests = of_containers_or_pod(pod, Side::Requests);
                let limits = of_containers_or_pod(pod, Side::Limits);
                Bounds(limit).check(&requests, &limits, &mut faults);
            }
            _ => {}
        }
    }
    faults
}

/// The violations of a claim. Only its requests are checked.
pub(super) fn of_claim(limits: &[Value], claim: &Value) -> Vec<String> {
    let requests = amounts(claim, &["spec", "resources", "requests"]);
    let mut faults = Vec::new();
    for limit in limits.iter().filter(|limit| view::text(limit, &["type"]) == "PersistentVolumeClaim") {
        let bounds = Bounds(limit);
        for (name, bound) in bounds.amounts("min") {
            faults.extend(bounds.minimum(&name, &bound, requests.get(&name), None));
        }
        for (name, bound) in bounds.amounts("max") {
            faults.extend(bounds.maximum_request(&name, &bound, requests.get(&name)));
        }
    }
    faults
}

/// One item of a LimitRange.
struct Bounds<'a>(&'a Value);

impl Bounds<'_> {
    fn check(&self, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
        for (name, bound) in self.amounts("min") {
            faults.extend(self.minimum(&name, &bound, requests.get(&name), limits.get(&name)));
        }
        for (name, bound) in self.amounts("max") {
            faults.extend(self.maximum(&name, &bound, requests.get(&name), limits.get(&name)));
        }
        for (name, bound) in self.amounts("maxLimitRequestRatio") {
            faults.extend(self.ratio(&name, &bound, requests.get(&name), limits.get(&name)));
        }
    }

    fn amounts(&self, field: &str) -> Amounts {
        amounts(self.0, &[field])
    }

    /// The type of the item: `Pod`, `Container` or `PersistentVolumeClaim`.
    fn per(&self) -> &str {
        view::text(self.0, &["type"])
    }

    fn minimum(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let rule = format!("minimum {name} usage per {} is {bound}", self.per());
        let Some(request) = request else { return Some(format!("{rule}.  No request is specified")) };
        if request < bound {
            return Some(format!("{rule}, but request is {request}"));
        }
        let limit = limit.filter(|limit| *limit < bound)?;
        Some(format!("{rule}, but limit is {limit}"))
    }

    fn maximum(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let rule = format!("maximum {name} usage per {} is {bound}", self.per());
        let Some(limit) = limit else { return Some(format!("{rule}.  No limit is specified")) };
        if limit > bound {
            return Some(format!("{rule}, but limit is {limit}"));
        }
        let request = request.filter(|request| *request > bound)?;
        Some(format!("{rule}, but request is {request}"))
    }

    fn maximum_request(&self, name: &str, bound: &Quantity, request: Option<&Quantity>) -> Option<String> {
        let rule = format!("maximum {name} usage per {} is {bound}", self.per());
        let Some(request) = request else { return Some(format!("{rule}.  No request is specified")) };
        (request > bound).then(|| format!("{rule}, but request is {request}"))
    }

    fn ratio(
        &self,
        name: &str,
        bound: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let rule = format!("{name} max limit to request ratio per {} is {bound}", self.per());
        let Some(request) = request.filter(|request| !request.is_zero()) else {
            return Some(format!("{rule}, but no request is specified or request is 0"));
        };
        let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
            return Some(format!("{rule}, but no limit is specified or limit is 0"));
        };
        let found = ratio_of(limit, request, bound);
        (found > bound.milli_value() as f64 / 1000.0)
            .then(|| format!("{rule}, but provided ratio is {found:.6}"))
    }
}

/// The ratio of limit to request, computed in thousandths if all amounts are small enough.
fn ratio_of(limit: &Quantity, request: &Quantity, bound: &Quantity) -> f64 {
    let is_small = [limit, request, bound].iter().all(|amount| amount.value() <= MAX_MILLI_VALUE);
    let count = if is_small { Quantity::milli_value } else { Quantity::value };
    count(limit) as f64 / count(request) as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(limit: Value, resources: Value, expected: &[&str]) {
        let pod = json!({"spec": {"containers": [{"resources": resources}]}});
        assert_eq!(of_pod(&[limit], &pod), expected);
    }

    #[test]
    fn bounded_resource_must_be_specified() {
        let min = json!({"type": "Container", "min": {"cpu": "1"}});
        check(min.clone(), json!({}), &["minimum cpu usage per Container is 1.  No request is specified"]);
        let small = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "900m"}});
        check(min, small, &["minimum cpu usage per Container is 1, but limit is 900m"]);
        let max = json!({"type": "Pod", "max": {"cpu": "1"}});
        check(max.clone(), json!({}), &["maximum cpu usage per Pod is 1.  No limit is specified"]);
        check(max.clone(), json!({"limits": {"cpu": "1"}}), &[]);
        let large = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
        check(max, large, &["maximum cpu usage per Pod is 1, but request is 2"]);
    }

    #[test]
    fn limit_to_request_ratio_is_bounded() {
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}});
        let resources =
            |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        check(ratio.clone(), resources("1", "1500m"), &[]);
        let rule = "cpu max limit to request ratio per Container is 1500m";
        check(ratio.clone(), resources("1", "1600m"), &[&format!("{rule}, but provided ratio is 1.600000")]);
        check(
            ratio.clone(),
            resources("0", "1"),
            &[&format!("{rule}, but no request is specified or request is 0")],
        );
        check(
            ratio,
            json!({"requests": {"cpu": "1"}}),
            &[&format!("{rule}, but no limit is specified or limit is 0")],
        );
    }
}
