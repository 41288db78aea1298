//! Whose an object is: a controller takes on what fits its selector and belongs to nobody, and lets go of
//! what is its own and does not fit any more.

use std::sync::Arc;

use coracle_runtime::informer::ObjectMetadata;
use coracle_runtime::{Objects, ReadYourWrites, Written};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::owner::Owner;
use crate::refusal;
use crate::view::Described;

/// What is to happen between an owner and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the owner's and stays so.
    Owned,
    /// It belongs to nobody and becomes the owner's.
    Adopt,
    /// It is the owner's and no longer fits.
    Release,
    /// It is none of the owner's business.
    Ignore,
}

/// Decides about one object. An owner that is being deleted keeps what it has and takes nothing.
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

/// Why objects could not be claimed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The server refused something.
    #[error("cannot claim an object")]
    Refused(#[from] kube::Error),
    /// The owner is not what is known of it, so it must not take anything on.
    #[error("the owner is being deleted or another one by now")]
    OwnerChanged,
}

/// How owners of a kind claim objects of another.
pub(crate) struct Claims<'a> {
    /// The owners.
    pub(crate) owners: &'a Objects,
    /// What they own.
    pub(crate) objects: &'a Objects,
    /// Where the changes of what they own are noted.
    pub(crate) writes: &'a ReadYourWrites,
    /// What an object gets with its owner, and loses with it.
    pub(crate) finalizers: &'a [&'a str],
}

impl Claims<'_> {
    /// The objects that are the owner's, after it took on those that `matches` and nobody has.
    ///
    /// # Errors
    /// If one could not be claimed, after all have been tried.
    pub(crate) async fn claim<V: Described>(
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
                        may_adopt = Some(owner.is_still_there(self.owners).await?);
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

    /// Whether the object was there to be taken on.
    async fn adopt(&self, owner: &Owner<'_>, object: &ObjectMetadata) -> kube::Result<bool> {
        match self.patch(owner, object, adoption(owner, object, self.finalizers)).await {
            Err(error) if refusal::is_missing(&error) => Ok(false),
            done => done.map(|()| true),
        }
    }

    async fn release(&self, owner: &Owner<'_>, object: &ObjectMetadata) -> kube::Result<()> {
        match self.patch(owner, object, letting_go(owner, object, self.finalizers)).await {
            // It is gone, or another one, or somebody else let it go.
            Err(error) if refusal::is_missing(&error) || refusal::is_invalid(&error) => Ok(()),
            done => done,
        }
    }

    async fn patch(&self, owner: &Owner<'_>, object: &ObjectMetadata, patch: Value) -> kube::Result<()> {
        let key = owner.beside(object.name());
        let patch = Patch::Strategic(patch);
        let written: Written = self.objects.patch(&key, &PatchParams::default(), &patch).await?;
        self.writes.note(owner.key, &written.metadata.resource_version);
        Ok(())
    }
}

/// The identity keeps another object of the same name from being changed.
fn adoption(owner: &Owner<'_>, object: &ObjectMetadata, finalizers: &[&str]) -> Value {
    let mut metadata = json!({"uid": object.uid(), "ownerReferences": [owner.owner_reference()]});
    if !finalizers.is_empty() {
        metadata["finalizers"] = json!(finalizers);
    }
    json!({"metadata": metadata})
}

fn letting_go(owner: &Owner<'_>, object: &ObjectMetadata, finalizers: &[&str]) -> Value {
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
    fn objects_are_claimed_by_owner_and_selector() {
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
