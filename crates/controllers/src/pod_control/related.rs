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
    let metadata = |side: &Option<Arc<V>>| side.as_ref().map(|object| object.object_metadata().clone());
    let (old, new) = (metadata(&change.old), metadata(&change.new));
    let mut keys = Vec::new();
    for side in [&new, &old].into_iter().flatten() {
        if let Some(owner) = side.controller().filter(|owner| kind.is_of(owner)) {
            let key =
                ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), &*owner.name);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    if let Some(orphan) = new.as_ref().filter(|new| may_be_adopted(old.as_ref(), new)) {
        let beside = owners.in_namespace(change.key.cluster(), change.key.namespace());
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
