//! Protection of claims, volumes and VolumeAttributesClasses: terminating objects are kept as long as they are used.
//!
//! Admission adds a finalizer to each. The controller removes it from terminating objects that are not used, and adds
//! it to objects without.

pub(crate) mod pv;
pub(crate) mod pvc;
pub(crate) mod vac;

use coracle_runtime::informer::ObjectMetadata;
use coracle_runtime::{Change, ObjectKey, Objects, Written};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api_error;
use crate::view::ObjectView;

/// Next step for the finalizer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    AddFinalizer,
    RemoveFinalizer,
}

/// Usage matters only for terminating objects, so `is_used` is called last.
fn plan(metadata: &ObjectMetadata, finalizer: &str, is_used: impl FnOnce() -> bool) -> Plan {
    match (metadata.is_terminating(), metadata.has_finalizer(finalizer)) {
        (true, true) if !is_used() => Plan::RemoveFinalizer,
        (false, false) => Plan::AddFinalizer,
        _ => Plan::Nothing,
    }
}

/// The object itself, if its finalizer may have to change.
fn needs_finalizer_change<V: ObjectView>(change: &Change<V>, finalizer: &str) -> Option<ObjectKey> {
    let new = change.new.as_ref()?;
    (plan(new.object_metadata(), finalizer, || false) != Plan::Nothing).then(|| change.key.clone())
}

/// Applies the plan. If the object is gone or has changed, its event enqueues the key again.
async fn apply(
    plan: Plan,
    objects: &Objects,
    key: &ObjectKey,
    metadata: &ObjectMetadata,
    finalizer: &str,
) -> kube::Result<()> {
    let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(|name| &**name).collect();
    match plan {
        Plan::Nothing => return Ok(()),
        Plan::AddFinalizer => finalizers.push(finalizer),
        Plan::RemoveFinalizer => finalizers.retain(|name| *name != finalizer),
    }
    let version = metadata.resource_version();
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}));
    match objects.patch::<Written>(key, &PatchParams::default(), &patch).await {
        Err(error) if api_error::is_outdated(&error) => Ok(()),
        done => done.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const FINALIZER: &str = "kubernetes.io/pv-protection";

    fn planned(metadata: Value, is_used: bool) -> Plan {
        plan(&serde_json::from_value(metadata).unwrap(), FINALIZER, || is_used)
    }

    #[test]
    fn used_objects_are_kept() {
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", FINALIZER]});
        assert_eq!(planned(going.clone(), true), Plan::Nothing);
        assert_eq!(planned(going, false), Plan::RemoveFinalizer);
    }

    #[test]
    fn missing_finalizer_is_added_unless_terminating() {
        assert_eq!(planned(json!({"finalizers": ["a/b"]}), false), Plan::AddFinalizer);
        assert_eq!(planned(json!({"finalizers": [FINALIZER]}), false), Plan::Nothing);
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
        assert_eq!(planned(going, false), Plan::Nothing, "finalizers cannot be added to terminating objects");
    }
}
