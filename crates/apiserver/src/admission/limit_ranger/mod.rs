//! LimitRanger: applies the LimitRanges of a namespace to pods and claims.
//!
//! Containers get default requests and limits, and the pod an annotation that lists them; then pods and claims are
//! checked against the bounds.

mod constraint;

use std::sync::Arc;

use coracle_meta::object::{Meta, MetaMut};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::limit_range::LimitRange;
use coracle_registry::{Result, view};
use serde_json::{Map, Value};

use super::plugin::{Plugin, Rule, forbidden};
use super::{PERSISTENT_VOLUME_CLAIMS, PODS, read};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(super) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &str {
        "LimitRanger"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![
            Rule::new("", PODS, &[Operation::Create]),
            Rule::new("", PODS, &[Operation::Update]).of_subresource("resize"),
        ]
    }

    fn validates(&self) -> Vec<Rule> {
        let mut rules = self.mutates();
        rules.push(Rule::new("", PERSISTENT_VOLUME_CLAIMS, &[Operation::Create, Operation::Update]));
        rules
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for range in ranges(attributes).await? {
                set_defaults(pod, &range);
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let is_pod = attributes.write.kind.declaration().plural == PODS;
            for range in ranges(attributes).await? {
                let limits = view::items(&range, &["spec", "limits"]);
                let faults = if is_pod {
                    constraint::of_pod(limits, object)
                } else {
                    constraint::of_claim(limits, object)
                };
                if let Some(message) = joined(faults) {
                    return Err(forbidden(attributes, object, message));
                }
            }
            Ok(())
        })
    }
}

/// The LimitRanges of the namespace; none for an object that is being deleted.
async fn ranges(attributes: &Attributes<'_>) -> Result<Vec<Arc<Value>>> {
    if attributes.old.is_some_and(|old| Meta::of(old).is_deleting()) {
        return Ok(Vec::new());
    }
    attributes.cluster.find_all(&LimitRange, attributes.write.namespace).await
}

/// Joins errors into one message, without duplicates.
fn joined(mut faults: Vec<String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    faults.retain(|fault| seen.insert(fault.clone()));
    match faults.len() {
        0 | 1 => faults.pop(),
        _ => Some(format!("[{}]", faults.join(", "))),
    }
}

/// Sets default requests and limits of containers, and lists them in an annotation.
fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in view::items(range, &["spec", "limits"]) {
        if view::text(limit, &["type"]) == "Container" {
            for (defaults, field) in [(&mut requests, "defaultRequest"), (&mut limits, "default")] {
                let path = [field];
                let list = view::fields(limit, &path);
                defaults.extend(list.map(|(name, amount)| (name.clone(), amount.clone())));
            }
        }
    }
    let mut notes = Vec::new();
    for (list, called) in [("containers", "container"), ("initContainers", "init container")] {
        for container in read::items_mut(pod, &["spec", list]) {
            for (side, defaults, noun) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let set = fill(container, side, defaults);
                if !set.is_empty() {
                    let name = view::text(container, &["name"]);
                    notes.push(format!("{} {noun} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    if let (false, Some(mut meta)) = (notes.is_empty(), MetaMut::of(pod)) {
        meta.set_annotation(ANNOTATION, &format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Sets the missing requests or limits of a container, and returns their names, sorted.
fn fill(container: &mut Value, side: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if view::at(container, &["resources", side, name]).is_none() {
            *read::entry(container, &["resources", side, name]) = amount.clone();
            set.push(name.clone());
        }
    }
    set.sort_unstable();
    set
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    async fn bench() -> Bench {
        let bench = Bench::new().await;
        let range = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "lr"},
            "spec": {"limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "500m", "memory": "256Mi"},
                    "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
                    "max": {"cpu": "2", "memory": "1Gi"},
                    "min": {"cpu": "50m"},
                    "maxLimitRequestRatio": {"cpu": "10"},
                },
                {"type": "Pod", "max": {"cpu": "3"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}, "min": {"storage": "1Gi"}},
            ]},
        });
        bench.create(&LimitRange, range).await;
        bench
    }

    /// The expected pod is that of kube-apiserver.
    #[tokio::test]
    async fn containers_get_default_requests_and_limits() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c"}, {"name": "d", "resources": {"limits": {"cpu": "200m"}}}],
            "initContainers": [{"name": "x"}],
        }});
        let pod = bench().await.admit_new(LimitRanger, &Pod, pod).await.unwrap();
        let full = json!({
            "limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}
        });
        assert_eq!(pod["spec"]["containers"][0]["resources"], full);
        assert_eq!(pod["spec"]["initContainers"][0]["resources"], full);
        let partly = json!({
            "limits": {"cpu": "200m", "memory": "256Mi"}, "requests": {"cpu": "200m", "memory": "128Mi"}
        });
        assert_eq!(pod["spec"]["containers"][1]["resources"], partly);
        let note = "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for \
                    container c; memory request for container d; memory limit for container d; cpu, memory \
                    request for init container x; cpu, memory limit for init container x";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], note);
    }

    /// The expected message is that of kube-apiserver.
    #[tokio::test]
    async fn all_violations_of_a_pod_are_reported() {
        let resources = json!({"limits": {"cpu": "4"}, "requests": {"cpu": "40m"}});
        let pod = json!({"metadata": {"name": "p3"}, "spec": {"containers": [{"name": "c", "resources": resources}]}});
        let refused = bench().await.admit_new(LimitRanger, &Pod, pod).await;
        let message = "pods \"p3\" is forbidden: [minimum cpu usage per Container is 50m, but request is \
                       40m, maximum cpu usage per Container is 2, but limit is 4, cpu max limit to request \
                       ratio per Container is 10, but provided ratio is 100.000000, maximum cpu usage per \
                       Pod is 3, but limit is 4]";
        assert_eq!(refused.unwrap_err(), message);
    }

    #[tokio::test]
    async fn claim_size_is_bounded() {
        let bench = bench().await;
        let claim = |size: &str| json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}});
        let check = async |size: &str, refused: Option<&str>| {
            let outcome = bench.admit_new(LimitRanger, &PersistentVolumeClaim, claim(size)).await;
            let message = |reason| format!("persistentvolumeclaims \"c\" is forbidden: {reason}");
            assert_eq!(outcome.err(), refused.map(message));
        };
        check("2Gi", None).await;
        let large = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi";
        check("20Gi", Some(large)).await;
        let small = "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi";
        check("512Mi", Some(small)).await;
    }

    #[tokio::test]
    async fn object_being_deleted_is_not_checked() {
        let bench = bench().await;
        let old = json!({"metadata": {"name": "c", "deletionTimestamp": "2024-01-01T00:00:00Z"}});
        let new = json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1Ti"}}}});
        assert!(bench.admit_update(LimitRanger, &PersistentVolumeClaim, "", &old, new).await.is_ok());
    }
}
