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
}
