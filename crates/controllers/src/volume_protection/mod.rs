//! Claims, volumes and classes of volumes that are deleted stay for as long as something uses them.
//!
//! Each is held by a finalizer that admission gives it. Its controller takes the finalizer away when the
//! object is being deleted and not used, and adds it to objects that came without.

pub(crate) mod pv;
pub(crate) mod pvc;
pub(crate) mod vac;

use coracle_runtime::informer::ObjectMetadata;
use coracle_runtime::{Change, ObjectKey, Objects, Written};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::refusal;
use crate::view::Described;

/// What is to happen to the finalizer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Protect,
    LetGo,
}

/// Nobody needs to know whether an object is used that is not being deleted, so it is asked last.
fn plan(metadata: &ObjectMetadata, finalizer: &str, is_used: impl FnOnce() -> bool) -> Plan {
    match (metadata.is_terminating(), metadata.has_finalizer(finalizer)) {
        (true, true) if !is_used() => Plan::LetGo,
        (false, false) => Plan::Protect,
        _ => Plan::Nothing,
    }
}

/// The object itself, if its finalizer may have to change.
fn unsettled<V: Described>(change: &Change<V>, finalizer: &str) -> Option<ObjectKey> {
    let new = change.new.as_ref()?;
    (plan(new.object_metadata(), finalizer, || false) != Plan::Nothing).then(|| change.key.clone())
}

/// Does to the finalizer what is planned. If the object is gone or has changed, that brings its key back.
async fn carry_out(
    plan: Plan,
    objects: &Objects,
    key: &ObjectKey,
    metadata: &ObjectMetadata,
    finalizer: &str,
) -> kube::Result<()> {
    let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(|name| &**name).collect();
    match plan {
        Plan::Nothing => return Ok(()),
        Plan::Protect => finalizers.push(finalizer),
        Plan::LetGo => finalizers.retain(|name| *name != finalizer),
    }
    let version = metadata.resource_version();
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}));
    match objects.patch::<Written>(key, &PatchParams::default(), &patch).await {
        Err(error) if refusal::is_outdated(&error) => Ok(()),
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
    fn what_is_used_stays() {
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", FINALIZER]});
        assert_eq!(planned(going.clone(), true), Plan::Nothing);
        assert_eq!(planned(going, false), Plan::LetGo);
    }

    #[test]
    fn what_came_without_protection_gets_it_while_that_is_possible() {
        assert_eq!(planned(json!({"finalizers": ["a/b"]}), false), Plan::Protect);
        assert_eq!(planned(json!({"finalizers": [FINALIZER]}), false), Plan::Nothing);
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
        assert_eq!(planned(going, false), Plan::Nothing, "nothing can be added any more");
    }
}
