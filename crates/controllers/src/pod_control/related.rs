//! Maps owners to their objects, and changed objects to their owners.

use std::sync::Arc;

use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{ObjectMetadata, Store};
use coracle_runtime::{Change, ClusterId, ObjectKey};

use super::owner::OwnerKind;
use crate::view::ObjectView;

/// Name of the index by [`by_controller`].
const BY_CONTROLLER: &str = "controller";

/// Prefix for the namespace of orphans. No uid begins with it.
const ORPHANS: &str = "/";

/// Index values: the uid of the controlling owner, or the namespace of an orphan.
fn by_controller<V: ObjectView>(object: &V) -> Vec<String> {
    let metadata = object.object_metadata();
    let orphan = || format!("{ORPHANS}{}", metadata.namespace());
    vec![metadata.controller().map_or_else(orphan, |owner| owner.uid.to_string())]
}

/// Adds the index by owner.
pub(crate) fn index_by_controller<V: ObjectView>(store: &Store<V>) {
    store.add_index(BY_CONTROLLER, by_controller);
}

/// Objects that the owner with this uid controls.
pub(crate) fn controlled_by<V: ObjectView>(store: &Store<V>, cluster: &ClusterId, uid: &str) -> Vec<Arc<V>> {
    store.by_index(BY_CONTROLLER, cluster, uid)
}

/// Orphans in the namespace of a key.
pub(crate) fn orphans_in_namespace<V: ObjectView>(store: &Store<V>, key: &ObjectKey) -> Vec<Arc<V>> {
    store.by_index(BY_CONTROLLER, key.cluster(), &format!("{ORPHANS}{}", key.namespace()))
}

/// Owners to reconcile after a change of an object: those that control it or did, and, if it is an orphan, those that
/// may adopt it.
pub(crate) fn owners_to_enqueue<V: ObjectView, O: ObjectView>(
    change: &Change<V>,
    kind: OwnerKind,
    owners: &Store<O>,
    selector: impl Fn(&O) -> &Selector,
) -> Vec<ObjectKey> {
    let beside = || owners.in_namespace(change.key.cluster(), change.key.namespace());
    enqueue_owners(change, kind, beside, selector)
}

fn enqueue_owners<V: ObjectView, O: ObjectView>(
    change: &Change<V>,
    kind: OwnerKind,
    beside: impl FnOnce() -> Vec<Arc<O>>,
    selector: impl Fn(&O) -> &Selector,
) -> Vec<ObjectKey> {
    let old = change.old.as_deref().map(ObjectView::object_metadata);
    let new = change.new.as_deref().map(ObjectView::object_metadata);
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

/// True for an orphan that was none before, or whose labels have changed.
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
    fn change_enqueues_owners_and_possible_adopters() {
        let sets = || vec![set("x1", "x"), set("x2", "x"), set("y", "y")];
        let names = |old: Option<Arc<Pod>>, new: Option<Arc<Pod>>| {
            let change = Change { key: ObjectKey::namespaced(ClusterId::default(), "n", "p"), old, new };
            let keys = enqueue_owners(&change, KIND, sets, ReplicaSet::selector);
            keys.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(None, pod("x", "r")), ["r"]);
        assert_eq!(names(pod("x", "r"), None), ["r"]);
        assert_eq!(names(pod("x", "r"), pod("x", "r")), ["r"]);
        assert_eq!(names(pod("x", "r"), pod("x", "s")), ["s", "r"]);
        assert_eq!(names(None, pod("x", "")), ["x1", "x2"]);
        assert_eq!(names(pod("x", ""), pod("x", "")), [""; 0], "no relevant change");
        assert_eq!(names(pod("x", ""), pod("y", "")), ["y"]);
        assert_eq!(names(pod("x", "r"), pod("x", "")), ["r", "x1", "x2"]);
        assert_eq!(names(pod("x", ""), None), [""; 0], "no owner is affected");
    }

    #[test]
    fn objects_are_indexed_by_owner() {
        assert_eq!(by_controller(&*pod("x", "r").unwrap()), ["r"]);
        assert_eq!(by_controller(&*pod("x", "").unwrap()), ["/n"]);
    }
}
