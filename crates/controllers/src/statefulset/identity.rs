//! Identity of a StatefulSet's pods: ordinal, name, labels and claims.

use serde_json::{Value, json};

use super::claims::claim_name;
use super::object::StatefulSet;
use crate::history::Snapshot;
use crate::pod_control::{Owner, pod_from_template};
use crate::view::{Pod, PodTemplate};

/// Label with the name of a pod, so that a service can select a single one.
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// Label with the ordinal of a pod.
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Label with the name of the pod's revision.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";

/// The ordinal of a set's pod, parsed from its name; `None` for other names.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse::<i32>().ok().map(i64::from))?
}

/// Name of the pod with this ordinal.
pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.metadata.name())
}

/// Revision of a pod; empty without the label.
pub(super) fn revision_of(pod: &Pod) -> &str {
    pod.metadata.labels.get(REVISION_LABEL).unwrap_or_default()
}

/// True if name and label of the pod match its ordinal.
pub(super) fn identity_matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    // A name with leading zeros is another pod's.
    pod.metadata.name() == pod_name(set, ordinal)
        && pod.metadata.labels.get(POD_NAME_LABEL) == Some(pod.metadata.name())
}

/// True if the pod has a volume for each of its claims.
pub(super) fn storage_matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    set.claim_templates.iter().all(|template| {
        let volume = pod.spec.volumes.iter().rev().find(|volume| volume.name == template.name);
        let claim = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        claim.is_some_and(|claim| *claim.claim_name == claim_name(set, template, ordinal))
    })
}

/// Identity labels of a pod.
pub(super) fn identity_labels(set: &StatefulSet, ordinal: i64) -> Value {
    json!({POD_NAME_LABEL: pod_name(set, ordinal), POD_INDEX_LABEL: ordinal.to_string()})
}

/// Volumes of a pod: one for each of its claims, and all others whose name differs from theirs.
pub(super) fn volumes(set: &StatefulSet, ordinal: i64, others: &[Value]) -> Vec<Value> {
    let of_claim = |template: &super::object::ClaimTemplate| {
        let source = json!({"claimName": claim_name(set, template, ordinal)});
        json!({"name": template.name, "persistentVolumeClaim": source})
    };
    let is_other = |volume: &&Value| {
        let name = volume["name"].as_str().unwrap_or_default();
        set.claim_templates.iter().all(|template| *template.name != *name)
    };
    set.claim_templates.iter().map(of_claim).chain(others.iter().filter(is_other).cloned()).collect()
}

/// The pod with this ordinal, from the template of a revision.
pub(super) fn new_pod(
    owner: &Owner<'_>,
    set: &StatefulSet,
    ordinal: i64,
    revision: &str,
    snapshot: &Snapshot,
) -> Value {
    let mut pod = pod_from_template(owner, &PodTemplate::from(snapshot.template()));
    let name = pod_name(set, ordinal);
    let metadata = &mut pod["metadata"];
    metadata["name"] = name.as_str().into();
    metadata["labels"][POD_NAME_LABEL] = name.as_str().into();
    metadata["labels"][POD_INDEX_LABEL] = ordinal.to_string().into();
    metadata["labels"][REVISION_LABEL] = revision.into();
    let spec = &mut pod["spec"];
    spec["hostname"] = name.into();
    if !set.service_name.is_empty() {
        spec["subdomain"] = (*set.service_name).into();
    }
    let others = spec["volumes"].as_array().cloned().unwrap_or_default();
    let volumes = volumes(set, ordinal, &others);
    if !volumes.is_empty() {
        spec["volumes"] = volumes.into();
    }
    pod
}

#[cfg(test)]
mod tests {
    use coracle_runtime::{ClusterId, ObjectKey};

    use super::super::KIND;
    use super::*;

    #[test]
    fn ordinals_are_parsed_from_names() {
        for (pod, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-", None),
            ("web-a", None),
            ("web-+1", None),
            ("webb-1", None),
            ("web-1-2", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(ordinal("web", pod), expected, "{pod}");
        }
    }

    #[test]
    fn pod_has_identity_labels_and_claims() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u"},
            "spec": {
                "serviceName": "svc",
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [
                    {"name": "data", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}},
                ]}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            },
        }))
        .unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "web");
        let owner = Owner { key: &key, kind: KIND, metadata: &set.metadata };
        let pod = new_pod(&owner, &set, 2, "web-abc", &set.snapshot);
        let labels = json!({
            "app": "web", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2",
            "controller-revision-hash": "web-abc",
        });
        assert_eq!(pod["metadata"]["labels"], labels);
        let metadata = &pod["metadata"];
        assert_eq!((&metadata["name"], &metadata["generateName"]), (&json!("web-2"), &json!("web-")));
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
            {"name": "scratch", "emptyDir": {}},
        ]);
        let expected = json!({"hostname": "web-2", "subdomain": "svc", "volumes": volumes});
        assert_eq!(pod["spec"], expected);
        let seen: Pod = serde_json::from_value(pod).unwrap();
        assert!(identity_matches(&set, &seen, 2) && storage_matches(&set, &seen, 2));
        assert!(!identity_matches(&set, &seen, 3) && !storage_matches(&set, &seen, 3));
        assert_eq!(revision_of(&seen), "web-abc");
    }
}
