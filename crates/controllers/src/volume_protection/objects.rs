//! What these controllers need to know of each object.

use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

/// Metadata with what holds an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProtectedMetadata {
    #[serde(flatten)]
    pub(super) plain: Metadata,
    pub(super) finalizers: Vec<Box<str>>,
}

impl ProtectedMetadata {
    pub(super) fn is_terminating(&self) -> bool {
        self.plain.deletion_timestamp.is_some()
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| **name == *finalizer)
    }
}

/// An object that is protected by a finalizer.
pub(super) trait Protected: View {
    fn protected(&self) -> &ProtectedMetadata;
}

/// A claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "WholeClaim")]
pub(super) struct Claim {
    metadata: ProtectedMetadata,
    /// The uid of the object that made it and manages it, if there is one.
    pub(super) controller: Option<Box<str>>,
    /// The classes it has, should have, or is about to have.
    pub(super) classes: Vec<String>,
}

/// A volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "WholeVolume")]
pub(super) struct Volume {
    metadata: ProtectedMetadata,
    pub(super) is_bound: bool,
    /// The class it has; one at most.
    pub(super) classes: Vec<String>,
}

/// A VolumeAttributesClass, of which only the metadata matters.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Class {
    metadata: ProtectedMetadata,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "WholePod")]
pub(super) struct Pod {
    metadata: Metadata,
    pub(super) uid: Box<str>,
    pub(super) is_scheduled: bool,
    /// Whether the kubelet is done with it, or was not waited for: only finalizers of others keep it.
    pub(super) is_shut_down: bool,
    /// The claims it names.
    pub(super) claims: Vec<Box<str>>,
    /// The claims that are made for it.
    pub(super) ephemeral_claims: Vec<Box<str>>,
}

macro_rules! protected {
    ($($view:ty),*) => {$(
        impl View for $view {
            fn metadata(&self) -> &Metadata {
                &self.metadata.plain
            }
        }

        impl Protected for $view {
            fn protected(&self) -> &ProtectedMetadata {
                &self.metadata
            }
        }
    )*};
}

protected!(Claim, Volume, Class);

impl View for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Pod {
    /// Every claim it may use, whoever made it.
    pub(super) fn all_claims(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().chain(&self.ephemeral_claims).map(|name| &**name)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WholeClaim {
    metadata: OwnedMetadata,
    spec: ClassName,
    status: ClaimStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnedMetadata {
    #[serde(flatten)]
    protected: ProtectedMetadata,
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    controller: bool,
    uid: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassName {
    volume_attributes_class_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimStatus {
    current_volume_attributes_class_name: Option<String>,
    modify_volume_status: Modification,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Modification {
    target_volume_attributes_class_name: Option<String>,
}

impl From<WholeClaim> for Claim {
    fn from(whole: WholeClaim) -> Self {
        let OwnedMetadata { protected, owner_references } = whole.metadata;
        let status = whole.status;
        let mut classes = named([
            whole.spec.volume_attributes_class_name,
            status.current_volume_attributes_class_name,
            status.modify_volume_status.target_volume_attributes_class_name,
        ]);
        classes.sort_unstable();
        classes.dedup();
        let controller = owner_references.into_iter().find(|owner| owner.controller).map(|owner| owner.uid);
        Self { metadata: protected, controller, classes }
    }
}

fn named<const COUNT: usize>(names: [Option<String>; COUNT]) -> Vec<String> {
    names.into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WholeVolume {
    metadata: ProtectedMetadata,
    spec: ClassName,
    status: VolumeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeStatus {
    phase: String,
}

impl From<WholeVolume> for Volume {
    fn from(whole: WholeVolume) -> Self {
        let classes = named([whole.spec.volume_attributes_class_name]);
        Self { metadata: whole.metadata, is_bound: whole.status.phase == "Bound", classes }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WholePod {
    metadata: PodMetadata,
    spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodMetadata {
    #[serde(flatten)]
    plain: Metadata,
    uid: Box<str>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
    volumes: Vec<PodVolume>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVolume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<EphemeralSource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource {
    claim_name: Box<str>,
}

/// What it is made of does not matter here.
#[derive(Deserialize)]
struct EphemeralSource {}

impl From<WholePod> for Pod {
    fn from(whole: WholePod) -> Self {
        let PodMetadata { plain, uid, deletion_grace_period_seconds } = whole.metadata;
        let (mut claims, mut ephemeral_claims) = (Vec::new(), Vec::new());
        for volume in whole.spec.volumes {
            if let Some(claim) = volume.persistent_volume_claim {
                claims.push(claim.claim_name);
            } else if volume.ephemeral.is_some() {
                // As upstream names them (`VolumeClaimName` in component-helpers/storage/ephemeral).
                ephemeral_claims.push(format!("{}-{}", plain.name, volume.name).into());
            }
        }
        Self {
            uid,
            is_scheduled: !whole.spec.node_name.is_empty(),
            is_shut_down: plain.deletion_timestamp.is_some() && deletion_grace_period_seconds == Some(0),
            claims,
            ephemeral_claims,
            metadata: plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_tell_who_manages_them_and_all_their_classes() {
        let owners = json!([{"uid": "u1"}, {"uid": "u2", "controller": true, "name": "p"}]);
        let claim: Claim = serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "n", "finalizers": ["a/b"], "ownerReferences": owners},
            "spec": {"volumeAttributesClassName": "silver", "resources": {}},
            "status": {
                "currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "InProgress"},
            },
        }))
        .unwrap();
        assert_eq!((&*claim.metadata().name, claim.controller.as_deref()), ("c", Some("u2")));
        assert_eq!(claim.classes, ["gold", "silver"]);
        assert!(claim.protected().has_finalizer("a/b") && !claim.protected().is_terminating());
        let plain: Claim =
            serde_json::from_value(json!({"spec": {"volumeAttributesClassName": ""}})).unwrap();
        assert!(plain.classes.is_empty() && plain.controller.is_none());
    }

    #[test]
    fn volumes_tell_whether_they_are_bound() {
        let volume = |phase: &str| -> Volume {
            let spec = json!({"volumeAttributesClassName": "gold"});
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        assert!(volume("Bound").is_bound && !volume("Released").is_bound);
        assert_eq!(volume("Bound").classes, ["gold"]);
    }

    #[test]
    fn pods_tell_which_claims_they_use() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 0},
            "spec": {"nodeName": "n1", "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "none", "emptyDir": {}},
            ]},
        }))
        .unwrap();
        assert_eq!(pod.all_claims().collect::<Vec<_>>(), ["c", "p-scratch"]);
        assert!(pod.is_scheduled && pod.is_shut_down);
        let young: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        assert!(!young.is_scheduled && !young.is_shut_down);
    }
}
