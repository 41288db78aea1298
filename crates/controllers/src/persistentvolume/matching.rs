//! Matches volumes with claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_meta::quantity::Quantity;
use coracle_runtime::informer::Labels;

use super::annotations::{STORAGE, class_of_claim, class_of_volume, is_bound_to, phase};
use crate::view::{PersistentVolume, PersistentVolumeClaim};

/// Default volume mode.
const FILESYSTEM: &str = "Filesystem";

/// The amount of storage; zero if it is missing or invalid.
pub(super) fn storage(amounts: &Labels) -> Quantity {
    amounts.get(STORAGE).and_then(|amount| amount.parse().ok()).unwrap_or_default()
}

/// True if one has the mode Filesystem and the other the mode Block.
pub(super) fn modes_differ(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    fn mode(mode: &Option<Box<str>>) -> &str {
        mode.as_deref().unwrap_or(FILESYSTEM)
    }
    mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode)
}

fn attributes_differ(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let volume = volume.spec.volume_attributes_class_name.as_deref().unwrap_or_default();
    volume != claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
}

fn has_access_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}

/// Why a volume that a claim requests by name does not match, worded for an event.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let wanted = storage(&claim.spec.resources.requests);
    if volume.metadata.is_terminating() {
        return Some(format!("the volume is marked for deletion {:?}", volume.metadata.name()));
    }
    let reason = if storage(&volume.spec.capacity).value() < wanted.value() {
        "requested PV is too small"
    } else if class_of_volume(volume) != class_of_claim(claim) {
        "storageClassName does not match"
    } else if attributes_differ(volume, claim) {
        "volumeAttributesClassName does not match"
    } else if modes_differ(volume, claim) {
        "incompatible volumeMode"
    } else if !has_access_modes(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// The best volume for a claim: one reserved for it, otherwise the smallest that is large enough, with as few access
/// modes as possible. With the binding mode WaitForFirstConsumer only a reserved volume is returned; the scheduler
/// chooses others.
pub(super) fn best(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    waits_for_consumer: bool,
) -> Option<Arc<PersistentVolume>> {
    let mut by_modes: BTreeMap<(usize, Vec<&str>), Vec<&Arc<PersistentVolume>>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| has_access_modes(volume, claim)) {
        let mut modes: Vec<&str> = volume.spec.access_modes.iter().map(|mode| &**mode).collect();
        modes.sort_unstable();
        modes.dedup();
        by_modes.entry((modes.len(), modes)).or_default().push(volume);
    }
    by_modes.values().find_map(|volumes| best_of(claim, volumes, waits_for_consumer)).cloned()
}

fn best_of<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &[&'a Arc<PersistentVolume>],
    waits_for_consumer: bool,
) -> Option<&'a Arc<PersistentVolume>> {
    let wanted = storage(&claim.spec.resources.requests);
    let is_for_others =
        |volume: &PersistentVolume| volume.spec.claim_ref.is_some() && !is_bound_to(volume, claim);
    let suits = |volume: &&&Arc<PersistentVolume>| {
        !is_for_others(volume)
            && storage(&volume.spec.capacity) >= wanted
            && !modes_differ(volume, claim)
            && !attributes_differ(volume, claim)
            && !volume.metadata.is_terminating()
    };
    let suiting: Vec<_> = volumes.iter().filter(suits).copied().collect();
    if let Some(reserved) = suiting.iter().find(|volume| is_bound_to(volume, claim)) {
        return Some(reserved);
    }
    if waits_for_consumer {
        return None;
    }
    let is_free = |volume: &&Arc<PersistentVolume>| {
        let selector = claim.spec.selector.as_ref();
        &*volume.status.phase == phase::AVAILABLE
            && selector.is_none_or(|selector| selector.matches(&volume.metadata.labels))
            && class_of_volume(volume) == class_of_claim(claim)
    };
    suiting.into_iter().filter(is_free).min_by_key(|volume| storage(&volume.spec.capacity))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(more: Value) -> PersistentVolumeClaim {
        let mut spec =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let metadata = json!({"name": "c", "namespace": "n", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn volume(name: &str, size: &str, more: Value) -> Arc<PersistentVolume> {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let labels = json!({"name": name});
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Available"}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn chosen(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>], waits: bool) -> String {
        best(claim, volumes, waits).map(|volume| volume.metadata.name().to_owned()).unwrap_or_default()
    }

    #[test]
    fn smallest_matching_volume_is_chosen() {
        let plain = claim(json!({}));
        let many = json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
        let all = [
            volume("tiny", "1Gi", json!({})),
            volume("wide", "6Gi", many),
            volume("large", "20Gi", json!({})),
            volume("fitting", "10Gi", json!({})),
            volume("block", "5Gi", json!({"volumeMode": "Block"})),
            volume("classy", "5Gi", json!({"storageClassName": "gold"})),
            volume("taken", "5Gi", json!({"claimRef": {"namespace": "n", "name": "other"}})),
            volume("readonly", "5Gi", json!({"accessModes": ["ReadOnlyMany"]})),
            volume("tuned", "5Gi", json!({"volumeAttributesClassName": "fast"})),
        ];
        assert_eq!(chosen(&plain, &all, false), "fitting", "a smaller volume has more access modes");
        assert_eq!(chosen(&plain, &all, true), "");
        assert_eq!(chosen(&claim(json!({"storageClassName": "gold"})), &all, false), "classy");
        assert_eq!(chosen(&claim(json!({"volumeMode": "Block"})), &all, false), "block");
        assert_eq!(
            chosen(&claim(json!({"accessModes": ["ReadOnlyMany", "ReadWriteOnce"]})), &all, false),
            "wide"
        );
        let large = json!({"resources": {"requests": {"storage": "11Gi"}}});
        assert_eq!(chosen(&claim(large), &all, false), "large");
        let named = json!({"selector": {"matchLabels": {"name": "large"}}});
        assert_eq!(chosen(&claim(named), &all, false), "large");
    }

    #[test]
    fn reserved_volume_takes_precedence() {
        let mine = json!({"claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "other"});
        let all = [volume("free", "5Gi", json!({})), volume("mine", "50Gi", mine)];
        assert_eq!(chosen(&claim(json!({})), &all, false), "mine");
        assert_eq!(chosen(&claim(json!({})), &all, true), "mine");
        let before = json!({"claimRef": {"namespace": "n", "name": "c", "uid": "before"}});
        assert_eq!(chosen(&claim(json!({})), &[volume("mine", "5Gi", before)], false), "");
    }

    #[test]
    fn mismatch_names_the_reason() {
        let event = |spec: Value, size: &str| mismatch(&volume("v", size, spec), &claim(json!({})));
        assert_eq!(event(json!({}), "5Gi"), None);
        let reason = |text: &str| Some(text.to_owned());
        assert_eq!(event(json!({}), "4Gi"), reason("requested PV is too small"));
        assert_eq!(event(json!({"storageClassName": "x"}), "5Gi"), reason("storageClassName does not match"));
        assert_eq!(event(json!({"volumeMode": "Block"}), "5Gi"), reason("incompatible volumeMode"));
        assert_eq!(event(json!({"accessModes": ["ReadOnlyMany"]}), "5Gi"), reason("incompatible accessMode"));
    }
}
