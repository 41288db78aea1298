//! Pods of a DaemonSet.

use serde_json::{Value, json};

use super::object::DaemonSet;
use super::plan::{HASH_LABEL, TEMPLATE_GENERATION_LABEL};
use super::tolerations;
use crate::pod_control::{Owner, pod_from_template};
use crate::view::PodTemplate;

/// A pod of the set with this revision hash, still without the node that [`bind`] sets.
pub(super) fn new_pod(owner: &Owner<'_>, set: &DaemonSet, hash: &str) -> Value {
    let mut template = set.snapshot.template();
    tolerations::add(&mut template["spec"]);
    let labels = &mut template["metadata"]["labels"];
    if let Some(generation) = set.template_generation() {
        labels[TEMPLATE_GENERATION_LABEL] = generation.to_string().into();
    }
    labels[HASH_LABEL] = hash.into();
    pod_from_template(owner, &PodTemplate::from(template))
}

/// Restricts the pod to one node by affinity. The template's node affinity is replaced, because this node fulfils it.
pub(super) fn bind(mut pod: Value, node: &str) -> Value {
    let by_name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"];
    affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = json!([by_name]);
    pod
}

#[cfg(test)]
mod tests {
    use coracle_runtime::{ClusterId, ObjectKey};

    use super::super::KIND;
    use super::*;
    use crate::view::Pod;

    #[test]
    fn pod_has_node_affinity_and_revision_hash() {
        let preferred = json!([{"weight": 1, "preference": {}}]);
        let node_affinity = json!({
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "Exists"},
            ]}]},
        });
        let spec = json!({"affinity": {"nodeAffinity": node_affinity}, "containers": [{"name": "c"}]});
        let set: DaemonSet = serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u",
                "annotations": {"deprecated.daemonset.template.generation": "3"}},
            "spec": {"template": {"metadata": {"labels": {"app": "d"}}, "spec": spec}},
        }))
        .unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "d");
        let owner = Owner { key: &key, kind: KIND, metadata: &set.metadata };
        let pod = bind(new_pod(&owner, &set, "abc"), "n1");
        let labels = json!({"app": "d", "controller-revision-hash": "abc", "pod-template-generation": "3"});
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["metadata"]["generateName"], "d-");
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
        assert_eq!(affinity["preferredDuringSchedulingIgnoredDuringExecution"], preferred);
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 6);
        let seen: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(seen.spec.affinity_node.0.as_deref(), Some("n1"));
    }
}
