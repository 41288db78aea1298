//! PersistentVolumeClaims of a StatefulSet's pods, and their owners.
//!
//! A claim that is to be deleted with its set, or with its pod when the set is scaled down, gets an owner reference,
//! and the garbage collector does the rest.

use coracle_runtime::informer::{ObjectMetadata, OwnerReference};
use serde_json::{Value, json};

use super::KIND;
use super::object::{ClaimTemplate, StatefulSet};
use crate::pod_control::OwnerKind;

/// Pods as owners.
pub(super) const POD: OwnerKind = OwnerKind { api_version: "v1", kind: "Pod" };

/// Name of the claim for an ordinal.
pub(super) fn claim_name(set: &StatefulSet, template: &ClaimTemplate, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template.name, set.metadata.name())
}

/// The claim for an ordinal. A claim that is deleted with its set gets the owner reference at creation, because the
/// set may be gone before a later update.
pub(super) fn new_claim(set: &StatefulSet, template: &ClaimTemplate, ordinal: i64) -> Value {
    let mut claim = template.to_value();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    let metadata = &mut claim["metadata"];
    metadata["name"] = claim_name(set, template, ordinal).into();
    metadata["namespace"] = set.metadata.namespace().into();
    for (key, value) in &set.match_labels {
        metadata["labels"][key] = value.as_str().into();
    }
    if set.retention.delete_when_deleted {
        metadata["ownerReferences"] = json!([reference(KIND, set.metadata.name(), set.metadata.uid())]);
    }
    claim
}

fn reference(kind: OwnerKind, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version.into(),
        kind: kind.kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Change of a claim's owner references.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owners {
    /// They are right, or managed by others.
    Keep,
    /// Replace them by these.
    Replace(Vec<OwnerReference>),
}

/// A pod as owner of claims. A pod that does not exist has an empty uid.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodIdentity<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    /// True if the ordinal is within the set's replicas.
    pub(super) is_wanted: bool,
}

/// True if a reference is to an object of this name, perhaps a former one.
fn refers(reference: &OwnerReference, kind: OwnerKind, name: &str) -> bool {
    *reference.api_version == *kind.api_version && *reference.kind == *kind.kind && *reference.name == *name
}

/// True if a claim is owned by a former object of this name.
fn is_stale(owners: &[OwnerReference], kind: OwnerKind, name: &str, uid: &str) -> bool {
    owners.iter().find(|owner| refers(owner, kind, name)).is_some_and(|owner| *owner.uid != *uid)
}

/// True if a claim is about to be deleted with the former pod of this name. The new pod must wait for that.
pub(super) fn blocks_new_pod(set: &StatefulSet, owners: &[OwnerReference], pod: &str) -> bool {
    set.retention.delete_when_scaled && is_stale(owners, POD, pod, "")
}

/// True if a claim that should be owned by the set or the pod has another controller.
pub(super) fn has_other_controller(
    set: &StatefulSet,
    owners: &[OwnerReference],
    pod: PodIdentity<'_>,
) -> bool {
    let retention = set.retention;
    if !retention.delete_when_deleted && !retention.delete_when_scaled {
        return false;
    }
    owners.iter().any(|owner| {
        if refers(owner, KIND, set.metadata.name()) {
            *owner.uid != *set.metadata.uid()
        } else if refers(owner, POD, pod.name) {
            *owner.uid != *pod.uid
        } else {
            owner.controller == Some(true)
        }
    })
}

/// Plans the owner references of a pod's claim.
pub(super) fn owners(set: &StatefulSet, owners: &[OwnerReference], pod: PodIdentity<'_>) -> Owners {
    let (set_name, set_uid) = (set.metadata.name(), set.metadata.uid());
    // Left by a former set or pod, and about to be garbage collected.
    if is_stale(owners, KIND, set_name, set_uid) || is_stale(owners, POD, pod.name, pod.uid) {
        return Owners::Keep;
    }
    let is_ours = |owner: &OwnerReference| *owner.uid == *set_uid || *owner.uid == *pod.uid;
    let wanted = if has_other_controller(set, owners, pod) { [None, None] } else { wanted(set, pod) };
    let has = |uid: &str| owners.iter().any(|owner| *owner.uid == *uid);
    let is_wanted = |uid: &str| wanted.iter().flatten().any(|owner| *owner.uid == *uid);
    let all_manage = owners.iter().filter(|owner| is_ours(owner)).all(|owner| owner.controller == Some(true));
    let up_to_date = [set_uid, pod.uid].into_iter().all(|uid| has(uid) == is_wanted(uid));
    if all_manage && up_to_date {
        return Owners::Keep;
    }
    let ours = |owner: &&OwnerReference| refers(owner, KIND, set_name) || refers(owner, POD, pod.name);
    let others = owners.iter().filter(|owner| !ours(owner)).cloned();
    Owners::Replace(others.chain(wanted.into_iter().flatten()).collect())
}

/// Owner of a pod's claim: the set, as long as the pod is within its replicas, otherwise the pod.
fn wanted(set: &StatefulSet, pod: PodIdentity<'_>) -> [Option<OwnerReference>; 2] {
    let retention = set.retention;
    let owned_by_pod = retention.delete_when_scaled && !pod.is_wanted;
    let owned_by_set = retention.delete_when_deleted && !owned_by_pod;
    [
        owned_by_set.then(|| reference(KIND, set.metadata.name(), set.metadata.uid())),
        owned_by_pod.then(|| reference(POD, pod.name, pod.uid)),
    ]
}

/// A patch of the owner references that fails if the claim has changed.
pub(super) fn owners_patch(claim: &ObjectMetadata, owners: &[OwnerReference]) -> Value {
    json!({"metadata": {"resourceVersion": claim.resource_version(), "ownerReferences": owners}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(when_deleted: &str, when_scaled: &str) -> StatefulSet {
        let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "set"},
            "spec": {"persistentVolumeClaimRetentionPolicy": policy,
                "selector": {"matchLabels": {"app": "web"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {}}]},
        }))
        .unwrap()
    }

    /// Owners as `kind/name:uid`, with `*` for controllers.
    fn references(text: &str) -> Vec<OwnerReference> {
        let reference = |text: &str| {
            let (text, controller) = (text.trim_end_matches('*'), text.ends_with('*'));
            let (kind, rest) = text.split_once('/').unwrap();
            let (name, uid) = rest.split_once(':').unwrap();
            let api_version = if kind == "StatefulSet" { "apps/v1" } else { "v1" };
            OwnerReference {
                api_version: api_version.into(),
                kind: kind.into(),
                name: name.into(),
                uid: uid.into(),
                controller: Some(controller),
                block_owner_deletion: None,
            }
        };
        text.split_whitespace().map(reference).collect()
    }

    fn text(owners: Owners) -> String {
        let text = |owner: &OwnerReference| {
            let mark = if owner.controller == Some(true) { "*" } else { "" };
            format!("{}/{}:{}{mark}", owner.kind, owner.name, owner.uid)
        };
        match owners {
            Owners::Keep => "keep".to_owned(),
            Owners::Replace(owners) => owners.iter().map(text).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn claim_owners_follow_the_retention_policy() {
        let (retain, delete) = ("Retain", "Delete");
        for (when_deleted, when_scaled, is_wanted, before, expected) in [
            (retain, retain, true, "", "keep"),
            (retain, retain, true, "StatefulSet/web:set*", ""),
            (retain, retain, false, "Pod/web-0:pod* ConfigMap/x:y", "ConfigMap/x:y"),
            (delete, retain, true, "", "StatefulSet/web:set*"),
            (delete, retain, false, "StatefulSet/web:set*", "keep"),
            (delete, retain, true, "StatefulSet/web:set", "StatefulSet/web:set*"),
            (delete, retain, true, "StatefulSet/web:set* Pod/web-0:pod*", "StatefulSet/web:set*"),
            (retain, delete, true, "", "keep"),
            (retain, delete, false, "", "Pod/web-0:pod*"),
            (retain, delete, true, "Pod/web-0:pod*", ""),
            (delete, delete, true, "", "StatefulSet/web:set*"),
            (delete, delete, false, "StatefulSet/web:set*", "Pod/web-0:pod*"),
            (delete, delete, true, "Pod/web-0:pod*", "StatefulSet/web:set*"),
            // Former owners are left to the garbage collector, and other owners are not changed.
            (delete, retain, true, "StatefulSet/web:old*", "keep"),
            (delete, delete, true, "Pod/web-0:old*", "keep"),
            (delete, retain, true, "ConfigMap/x:y*", "keep"),
            (delete, retain, true, "ConfigMap/x:y* StatefulSet/web:set*", "ConfigMap/x:y*"),
        ] {
            let set = set(when_deleted, when_scaled);
            let pod = PodIdentity { name: "web-0", uid: "pod", is_wanted };
            let found = text(owners(&set, &references(before), pod));
            assert_eq!(found, expected, "{when_deleted} {when_scaled} {is_wanted} {before}");
            if let Owners::Replace(after) = owners(&set, &references(before), pod) {
                assert_eq!(owners(&set, &after, pod), Owners::Keep, "the result is stable");
            }
        }
    }

    #[test]
    fn claim_owned_by_the_former_pod_blocks_the_new_one() {
        let blocks = |set: &StatefulSet, owners: &str| blocks_new_pod(set, &references(owners), "web-0");
        assert!(blocks(&set("Retain", "Delete"), "Pod/web-0:pod*"));
        assert!(!blocks(&set("Retain", "Delete"), "StatefulSet/web:set*"));
        assert!(!blocks(&set("Retain", "Retain"), "Pod/web-0:pod*"));
    }

    #[test]
    fn new_claim_is_owned_by_its_set_if_deleted_with_it() {
        let made = |when_deleted| {
            let set = set(when_deleted, "Delete");
            new_claim(&set, &set.claim_templates[0], 0)["metadata"]["ownerReferences"].clone()
        };
        assert_eq!(made("Retain"), Value::Null);
        assert_eq!(
            (&made("Delete")[0]["uid"], &made("Delete")[0]["kind"]),
            (&json!("set"), &json!("StatefulSet"))
        );
    }

    #[test]
    fn claim_has_the_match_labels() {
        let set = set("Retain", "Retain");
        let claim = new_claim(&set, &set.claim_templates[0], 3);
        let expected =
            json!({"name": "data-web-3", "namespace": "n", "labels": {"app": "web", "tier": "db"}});
        assert_eq!(claim["metadata"], expected);
    }
}
