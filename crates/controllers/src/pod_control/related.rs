//! Finding the objects of an owner, and the owners of an object that changed.

use std::sync::Arc;

use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{ObjectMetadata, Store};
use coracle_runtime::{Change, ClusterId, ObjectKey};

use super::owner::OwnerKind;
use crate::view::Described;

/// The index of [`by_controller`].
const BY_CONTROLLER: &str = "controller";

/// What stands before the namespace of those that belong to nobody. No identity begins with it.
const ORPHANS: &str = "/";

/// Objects by the identity of the owner that manages them; those of nobody by their namespace.
fn by_controller<V: Described>(object: &V) -> Vec<String> {
    let metadata = object.object_metadata();
    let nobody = || format!("{ORPHANS}{}", metadata.namespace());
    vec![metadata.controller().map_or_else(nobody, |owner| owner.uid.to_string())]
}

/// Makes objects findable by their owner.
pub(crate) fn index_by_controller<V: Described>(store: &Store<V>) {
    store.add_index(BY_CONTROLLER, by_controller);
}

/// The objects that the owner of this identity manages.
pub(crate) fn controlled_by<V: Described>(store: &Store<V>, cluster: &ClusterId, uid: &str) -> Vec<Arc<V>> {
    store.by_index(BY_CONTROLLER, cluster, uid)
}

/// The objects in the namespace of a key that nobody manages.
pub(crate) fn orphans_beside<V: Described>(store: &Store<V>, key: &ObjectKey) -> Vec<Arc<V>> {
    store.by_index(BY_CONTROLLER, key.cluster(), &format!("{ORPHANS}{}", key.namespace()))
}

/// The owners to look at after a change of an object: those that manage it or did, and, if it belongs to
/// nobody, those that may take it on.
pub(crate) fn owners_concerned<V: Described, O: Described>(
    change: &Change<V>,
    kind: OwnerKind,
    owners: &Store<O>,
    selector: impl Fn(&O) -> &Selector,
) -> Vec<ObjectKey> {
    let beside = || owners.in_namespace(change.key.cluster(), change.key.namespace());
    concerned(change, kind, beside, selector)
}

fn concerned<V: Described, O: Described>(
    change: &Change<V>,
    kind: OwnerKind,
    beside: impl FnOnce() -> Vec<Arc<O>>,
    selector: impl Fn(&O) -> &Selector,
) -> Vec<ObjectKey> {
    let old = change.old.as_deref().map(Described::object_metadata);
    let new = change.new.as_deref().map(Described::object_metadata);
    let mut keys = Vec::new();
    for side in [new, old].into_iter().flatten() {
        if let Some(owner) = side.controller().filter(|owner| kind.is_of(owner)) {
            let key =
                ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), &*owner.name);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    if let Some(orphan) = new.filter(|new| may_be_adopted(old, new)) {
        let beside = beside();
        let fitting = beside.iter().filter(|owner| selector(owner).matches(&orphan.labels));
        keys.extend(fitting.map(|owner| {
            let name = owner.object_metadata().name();
            ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), name)
        }));
    }
    keys
}

/// Whether somebody may want what belongs to nobody and did not before.
fn may_be_adopted(old: Option<&ObjectMetadata>, new: &ObjectMetadata) -> bool {
    let changed = |old: &ObjectMetadata| old.labels != new.labels || old.controller() != new.controller();
    new.controller().is_none() && !new.is_terminating() && old.is_none_or(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::{Pod, ReplicaSet};

    const KIND: OwnerKind = OwnerKind { api_version: "apps/v1", kind: "ReplicaSet" };

    fn pod(app: &str, owner: &str) -> Option<Arc<Pod>> {
        let reference = |name: &str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true});
        let owners: Vec<Value> =
            [owner].iter().filter(|name| !name.is_empty()).map(|name| reference(name)).collect();
        let metadata =
            json!({"name": "p", "namespace": "n", "labels": {"app": app}, "ownerReferences": owners});
        Some(Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap()))
    }

    fn set(name: &str, app: &str) -> Arc<ReplicaSet> {
        let spec = json!({"selector": {"matchLabels": {"app": app}}});
        let set = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
        Arc::new(serde_json::from_value(set).unwrap())
    }

    #[test]
    fn a_change_concerns_owners_and_those_that_may_become_one() {
        let sets = || vec![set("x1", "x"), set("x2", "x"), set("y", "y")];
        let names = |old: Option<Arc<Pod>>, new: Option<Arc<Pod>>| {
            let change = Change { key: ObjectKey::namespaced(ClusterId::default(), "n", "p"), old, new };
            let keys = concerned(&change, KIND, sets, ReplicaSet::selector);
            keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(None, pod("x", "r")), ["r"]);
        assert_eq!(names(pod("x", "r"), None), ["r"]);
        assert_eq!(names(pod("x", "r"), pod("x", "r")), ["r"]);
        assert_eq!(names(pod("x", "r"), pod("x", "s")), ["s", "r"]);
        assert_eq!(names(None, pod("x", "")), ["x1", "x2"]);
        assert_eq!(names(pod("x", ""), pod("x", "")), [""; 0], "nothing that matters to them");
        assert_eq!(names(pod("x", ""), pod("y", "")), ["y"]);
        assert_eq!(names(pod("x", "r"), pod("x", "")), ["r", "x1", "x2"]);
        assert_eq!(names(pod("x", ""), None), [""; 0], "nobody misses it");
    }

    #[test]
    fn objects_are_found_by_their_owner() {
        assert_eq!(by_controller(&*pod("x", "r").unwrap()), ["r"]);
        assert_eq!(by_controller(&*pod("x", "").unwrap()), ["/n"]);
    }
}
