//! Deletes objects whose namespace no longer exists.
//!
//! The API server creates no objects in a terminating namespace, so none outlives it. Earlier versions let creates
//! slip through that were committed after the namespace had been emptied; their objects are deleted here.

use std::sync::Arc;

use coracle_runtime::{ObjectKey, Objects, Written};
use futures_util::stream::{self, StreamExt};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Preconditions};

use super::content::is_deletable;
use crate::ownership_graph::{Kinds, Object, ServedKind};

/// Number of concurrent requests for one namespace.
const REQUESTS: usize = 16;

/// Deletes everything in the namespace at `key`, unless the namespace exists.
///
/// The objects are listed before the namespace is looked up. So all listed objects have lost their namespace: if one
/// of that name is created later, its objects are not in the lists, and have other uids.
pub(super) async fn delete(
    client: &Client,
    namespaces: &Objects,
    kinds: &Kinds,
    key: &ObjectKey,
) -> kube::Result<()> {
    let inside = ObjectKey::namespaced(key.cluster().clone(), key.name(), "");
    let orphans = list(client, kinds, &inside).await?;
    if orphans.is_empty() || namespaces.get::<Written>(key).await?.is_some() {
        return Ok(());
    }
    tracing::info!(namespace = %key, objects = orphans.len(), "deleting objects whose namespace does not exist");
    let mut deletions = stream::iter(orphans)
        .map(|(kind, object)| delete_one(Objects::at(client, kind.path()), &inside, object))
        .buffer_unordered(REQUESTS);
    while let Some(deleted) = deletions.next().await {
        deleted?;
    }
    Ok(())
}

/// The objects of all kinds that are not terminating.
async fn list(
    client: &Client,
    kinds: &Kinds,
    inside: &ObjectKey,
) -> kube::Result<Vec<(Arc<ServedKind>, Object)>> {
    let kinds: Vec<_> = kinds.preferred().filter(|kind| is_deletable(kind)).cloned().collect();
    let mut lists = stream::iter(kinds)
        .map(|kind| async move {
            let objects = Objects::at(client, kind.path());
            (objects.list::<Object>(inside, &ListParams::default()).await, kind)
        })
        .buffered(REQUESTS);
    let mut found = Vec::new();
    while let Some((objects, kind)) = lists.next().await {
        let left = objects?.into_iter().filter(|object| !object.is_terminating());
        found.extend(left.map(|object| (Arc::clone(&kind), object)));
    }
    Ok(found)
}

async fn delete_one(objects: Objects, inside: &ObjectKey, object: Object) -> kube::Result<()> {
    let key = ObjectKey::namespaced(inside.cluster().clone(), inside.namespace(), &*object.metadata.name);
    let this_one = Preconditions { uid: Some(object.metadata.uid.to_string()), resource_version: None };
    let params = DeleteParams::background().preconditions(this_one);
    objects.delete(&key, &params).await
}
