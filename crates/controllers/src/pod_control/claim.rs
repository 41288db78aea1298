//! Ownership of objects: a controller adopts orphans that match its selector, and releases its objects that no longer
//! match.

use std::sync::Arc;

use coracle_runtime::informer::ObjectMetadata;
use coracle_runtime::{Objects, ReadYourWrites, Written};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::owner::Owner;
use crate::api_error;
use crate::view::ObjectView;

/// Decision about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The owner controls it and keeps it.
    Owned,
    /// It is an orphan and matches.
    Adopt,
    /// The owner controls it, but it no longer matches.
    Release,
    /// It is not related to the owner.
    Ignore,
}

/// Decides about one object. An owner that is terminating keeps its objects and adopts none.
pub(crate) fn claim(owner: &ObjectMetadata, object: &ObjectMetadata, matches: impl Fn() -> bool) -> Claim {
    match object.controller() {
        Some(controller) if *controller.uid != *owner.uid() => Claim::Ignore,
        Some(_) if matches() => Claim::Owned,
        Some(_) if owner.is_terminating() => Claim::Ignore,
        Some(_) => Claim::Release,
        None if owner.is_terminating() || object.is_terminating() || !matches() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// Error of claiming objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// A request failed.
    #[error("cannot adopt or release an object")]
    Refused(#[from] kube::Error),
    /// The cached owner is outdated, so it must not adopt objects.
    #[error("the owner is terminating or was replaced")]
    OwnerChanged,
}

/// Claims objects of one kind for owners of another.
pub(crate) struct Claims<'a> {
    /// Access to the owners.
    pub(crate) owners: &'a Objects,
    /// Access to the owned objects.
    pub(crate) objects: &'a Objects,
    /// Writes to the owned objects.
    pub(crate) writes: &'a ReadYourWrites,
    /// Finalizers to add with the owner reference, and to remove with it.
    pub(crate) finalizers: &'a [&'a str],
}

impl Claims<'_> {
    /// The owner's objects, after adopting matching orphans and releasing others.
    ///
    /// # Errors
    /// If an object could not be claimed, after trying all.
    pub(crate) async fn claim<V: ObjectView>(
        &self,
        owner: &Owner<'_>,
        candidates: impl IntoIterator<Item = Arc<V>>,
        matches: impl Fn(&V) -> bool,
    ) -> Result<Vec<Arc<V>>, ClaimError> {
        let (mut owned, mut failure, mut may_adopt) = (Vec::new(), Ok(()), None);
        for object in candidates {
            let metadata = object.object_metadata();
            match claim(owner.metadata, metadata, || matches(&object)) {
                Claim::Ignore => {}
                Claim::Owned => owned.push(object),
                Claim::Release => {
                    if let Err(error) = self.release(owner, metadata).await {
                        failure = Err(error.into());
                    }
                }
                Claim::Adopt => {
                    if may_adopt.is_none() {
                        may_adopt = Some(owner.exists_on_server(self.owners).await?);
                    }
                    if may_adopt == Some(false) {
                        return Err(ClaimError::OwnerChanged);
                    }
                    match self.adopt(owner, metadata).await {
                        Err(error) => failure = Err(error.into()),
                        Ok(true) => owned.push(object),
                        Ok(false) => {}
                    }
                }
            }
        }
        failure.map(|()| owned)
    }

    /// True if the object existed and was adopted.
    async fn adopt(&self, owner: &Owner<'_>, object: &ObjectMetadata) -> kube::Result<bool> {
        match self.patch(owner, object, adoption_patch(owner, object, self.finalizers)).await {
            Err(error) if api_error::is_missing(&error) => Ok(false),
            done => done.map(|()| true),
        }
    }

    async fn release(&self, owner: &Owner<'_>, object: &ObjectMetadata) -> kube::Result<()> {
        match self.patch(owner, object, release_patch(owner, object, self.finalizers)).await {
            // It is gone, replaced, or already released.
            Err(error) if api_error::is_missing(&error) || api_error::is_invalid(&error) => Ok(()),
            done => done,
        }
    }

    async fn patch(&self, owner: &Owner<'_>, object: &ObjectMetadata, patch: Value) -> kube::Result<()> {
        let key = owner.namespaced_key(object.name());
        let patch = Patch::Strategic(patch);
        let written: Written = self.objects.patch(&key, &PatchParams::default(), &patch).await?;
        self.writes.note(owner.key, &written.metadata.resource_version);
        Ok(())
    }
}

/// The uid prevents changing another object of the same name.
fn adoption_patch(owner: &Owner<'_>, object: &ObjectMetadata, finalizers: &[&str]) -> Value {
    let mut metadata = json!({"uid": object.uid(), "ownerReferences": [owner.owner_reference()]});
    if !finalizers.is_empty() {
        metadata["finalizers"] = json!(finalizers);
    }
    json!({"metadata": metadata})
}

fn release_patch(owner: &Owner<'_>, object: &ObjectMetadata, finalizers: &[&str]) -> Value {
    let reference = json!({"$patch": "delete", "uid": owner.metadata.uid()});
    let mut metadata = json!({"uid": object.uid(), "ownerReferences": [reference]});
    if !finalizers.is_empty() {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!(finalizers);
    }
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(controller: Option<&str>, is_terminating: bool) -> ObjectMetadata {
        let owners: Vec<_> =
            controller.into_iter().map(|uid| json!({"uid": uid, "controller": true})).collect();
        let deletion = is_terminating.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"uid": "u", "ownerReferences": owners, "deletionTimestamp": deletion});
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn claim_depends_on_owner_and_selector() {
        let (living, dying) = (metadata(None, false), metadata(None, true));
        let cases = [
            (&living, Some("u"), false, true, Claim::Owned),
            (&dying, Some("u"), false, true, Claim::Owned),
            (&living, Some("u"), false, false, Claim::Release),
            (&dying, Some("u"), false, false, Claim::Ignore),
            (&living, Some("v"), false, true, Claim::Ignore),
            (&living, None, false, true, Claim::Adopt),
            (&living, None, false, false, Claim::Ignore),
            (&living, None, true, true, Claim::Ignore),
            (&dying, None, false, true, Claim::Ignore),
        ];
        for (owner, controller, is_terminating, matches, expected) in cases {
            let object = metadata(controller, is_terminating);
            assert_eq!(
                claim(owner, &object, || matches),
                expected,
                "{controller:?} {is_terminating} {matches}"
            );
        }
    }
}
