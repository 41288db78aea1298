//! Kinds that CustomResourceDefinitions define.
//!
//! A custom resource can only be defined by the CustomResourceDefinition named `<plural>.<group>`, so a kind that is
//! not built in is looked up by one read of that object. Compiled definitions are cached, with a bound, for all
//! clusters together. No cache needs invalidation: a definition is effective as soon as its write is acknowledged (if
//! another server on the same etcd wrote it: as soon as its event has arrived, as in kube-apiserver), and an unused
//! one costs only its storage.
//!
//! Each version is a [`Kind`](crate::Kind) of its own: its hooks see objects in that version, as in kube-apiserver
//! ([ADR 8](../../../docs/adr/0008-custom-kinds.md)).

mod cells;
mod compiled;
mod compiled_cache;
mod custom_kind;
mod definition;
mod scale;

pub(crate) use compiled_cache::CompiledCache;

use std::sync::Arc;

use coracle_store::Entry;

use crate::catalog;
use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::kind_ref::KindRef;
use crate::kinds::apiextensions::custom_resource_definition::CustomResourceDefinition;
use crate::lifecycle::ListOptions;
use custom_kind::CustomKind;
use definition::Served;

impl Cluster {
    /// Looks up a served kind by group, version and plural name, as in a path.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn kind(&self, group: &str, version: &str, plural: &str) -> Result<Option<KindRef>> {
        if let Some(kind) = catalog::find(group, version, plural) {
            return Ok(Some(KindRef::Static(kind)));
        }
        // Groups of definitions contain a dot, so most unknown groups need no read.
        if !group.contains('.') {
            return Ok(None);
        }
        let name = format!("{plural}.{group}");
        let key = keys::key(CustomResourceDefinition.declaration(), "", &name);
        let Some(entry) = self.cached_entry(&key).await? else { return Ok(None) };
        let served = self.definitions().of(&entry)?;
        Ok(served.and_then(|served| CustomKind::new(served, version)).map(handle))
    }

    /// Looks up a served kind by group, version and kind.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn kind_named(&self, group: &str, version: &str, kind: &str) -> Result<Option<KindRef>> {
        if let Some(kind) = catalog::find_named(group, version, kind) {
            return Ok(Some(KindRef::Static(kind)));
        }
        let kinds = self.custom_kinds().await?;
        Ok(kinds.into_iter().find(|found| found.declaration().is_named(group, version, kind)))
    }

    /// All served custom kinds, one for each version, sorted by the names of their definitions.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn custom_kinds(&self) -> Result<Vec<KindRef>> {
        let page = self.list(&CustomResourceDefinition, "", &ListOptions::default()).await?;
        let mut kinds = Vec::new();
        for entry in &page.entries {
            if let Some(served) = self.definitions().of(entry)? {
                kinds.extend(CustomKind::all(&served).map(handle));
            }
        }
        Ok(kinds)
    }
}

fn handle(kind: CustomKind) -> KindRef {
    KindRef::Shared(Arc::new(kind))
}

/// Decodes a stored definition, without the cache.
fn read(entry: &Entry) -> Result<Option<Served>> {
    Ok(Served::of(entry, &crate::lifecycle::tree(entry)?))
}
