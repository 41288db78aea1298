//! Kinds that come with a CustomResourceDefinition.
//!
//! A custom resource can only come from the definition called `<plural>.<group>`, so a kind that is not
//! built in is looked up by one read of that object. What is compiled from it is kept, bounded, for
//! all clusters together. There is nothing to keep in step: a definition counts from the moment that
//! its write is acknowledged (a change of it through another server on the same etcd: from the moment that its event
//! has arrived, as in kube-apiserver), and one that nobody asks for costs what it takes in the store.
//!
//! Each version is a kind of its own: its hooks see objects in that version, as upstream's do
//! ([ADR 8](../../../docs/adr/0008-custom-kinds.md)).

mod cells;
mod compiled;
mod compiled_cache;
mod custom_kind;
mod definition;
mod scale;

pub(crate) use compiled_cache::Definitions;

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
    /// The kind that a path names, if it is served.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn kind(&self, group: &str, version: &str, plural: &str) -> Result<Option<KindRef>> {
        if let Some(kind) = catalog::find(group, version, plural) {
            return Ok(Some(KindRef::Static(kind)));
        }
        // Groups of definitions have a dot, so most mistakes are noticed without a look.
        if !group.contains('.') {
            return Ok(None);
        }
        let name = format!("{plural}.{group}");
        let key = keys::key(CustomResourceDefinition.declaration(), "", &name);
        let Some(entry) = self.cached_entry(&key).await? else { return Ok(None) };
        let served = self.definitions().of(&entry)?;
        Ok(served.and_then(|served| CustomKind::new(served, version)).map(handle))
    }

    /// The kind of this name in a version, if it is served.
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

    /// All custom kinds that are served, in each of their versions, ascending by the names of their
    /// definitions.
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

/// What is served of a definition, whatever was compiled before.
fn read(entry: &Entry) -> Result<Option<Served>> {
    Ok(Served::of(entry, &crate::lifecycle::tree(entry)?))
}
