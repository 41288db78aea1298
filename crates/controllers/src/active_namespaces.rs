//! Namespaces as those see them who put something into each.

use coracle_runtime::informer::{MetadataOnly, View};
use coracle_runtime::{Change, Informer, Manager, ObjectKey, Selection};
use k8s_openapi::api::core::v1::Namespace;

/// All namespaces, by name.
pub(crate) fn informer(manager: &mut Manager) -> Informer<MetadataOnly> {
    manager.informer(Selection::of::<Namespace>().metadata_only())
}

/// Whether something may be put into a namespace.
pub(crate) fn is_active(namespaces: &Informer<MetadataOnly>, key: &ObjectKey) -> bool {
    namespaces.store().get(key).is_some_and(|namespace| !namespace.is_terminating())
}

/// The namespace itself, unless it is gone.
pub(crate) fn itself(change: &Change<MetadataOnly>) -> Option<ObjectKey> {
    change.new.is_some().then(|| change.key.clone())
}

/// The namespace something is in.
pub(crate) fn around<V: View>(change: &Change<V>) -> Option<ObjectKey> {
    change.key.namespace_key()
}
