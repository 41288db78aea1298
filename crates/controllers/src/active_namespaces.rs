//! The namespace informer of controllers that create objects in every namespace.

use coracle_runtime::informer::{MetadataOnly, View};
use coracle_runtime::{Change, Informer, Manager, ObjectKey, Selection};
use k8s_openapi::api::core::v1::Namespace;

/// Returns the informer of all namespaces, metadata only.
pub(crate) fn informer(manager: &mut Manager) -> Informer<MetadataOnly> {
    manager.informer(Selection::of::<Namespace>().metadata_only())
}

/// True if objects may be created in the namespace.
pub(crate) fn is_active(namespaces: &Informer<MetadataOnly>, key: &ObjectKey) -> bool {
    namespaces.store().get(key).is_some_and(|namespace| !namespace.is_terminating())
}

/// Key of the changed namespace, unless it was deleted.
pub(crate) fn itself(change: &Change<MetadataOnly>) -> Option<ObjectKey> {
    change.new.is_some().then(|| change.key.clone())
}

/// Key of the changed object's namespace.
pub(crate) fn namespace_of<V: View>(change: &Change<V>) -> Option<ObjectKey> {
    change.key.namespace_key()
}
