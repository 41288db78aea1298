//! Making, mending and deleting the pods of a StatefulSet and their claims, and telling people of it.

use std::fmt;
use std::sync::Arc;

use coracle_runtime::{EventType, Written};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::claims::{self, Owners, PodIdentity, claim_name, new_claim, owners_patch};
use super::identity::{identity_labels, identity_matches, new_pod, pod_name, storage_matches, volumes};
use super::object::{ClaimTemplate, StatefulSet};
use super::plan::{Act, pod_identity};
use super::{Error, StatefulSets};
use crate::history::ControllerRevision;
use crate::pod_control::Owner;
use crate::refusal;
use crate::view::Pod;

/// A set, and what its pods are made after.
pub(super) struct Working<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) set: &'a StatefulSet,
    pub(super) current: &'a ControllerRevision,
    pub(super) update: &'a ControllerRevision,
}

/// What was done to a pod or a claim, as events call it.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn reasons(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("SuccessfulCreate", "FailedCreate"),
            Self::Update => ("SuccessfulUpdate", "FailedUpdate"),
            Self::Delete => ("SuccessfulDelete", "FailedDelete"),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        })
    }
}

impl StatefulSets {
    pub(super) async fn act(&self, on: &Working<'_>, act: &Act) -> Result<(), Error> {
        match act {
            Act::Create { ordinal, is_updated } => self.create(on, *ordinal, *is_updated).await,
            Act::Delete(pod) => self.delete(on, pod).await,
            Act::CompleteClaims { pod, ordinal } => {
                self.create_claims(on, pod.metadata.name(), *ordinal).await?;
                let mended = self.mend_claims(on, pod_identity(on.set, pod, *ordinal), *ordinal).await;
                mended
                    .inspect_err(|error| self.tell_of_pod(on, Verb::Update, pod.metadata.name(), Err(error)))
            }
            Act::Mend { pod, ordinal } => {
                let mended = self.mend(on, pod, *ordinal).await;
                self.tell_of_pod(on, Verb::Update, pod.metadata.name(), mended.as_ref().map(|&()| ()));
                mended
            }
            Act::MendClaims { pod, ordinal } => {
                self.mend_claims(on, pod_identity(on.set, pod, *ordinal), *ordinal).await
            }
        }
    }

    /// Makes a pod, after its claims.
    async fn create(&self, on: &Working<'_>, ordinal: i64, is_updated: bool) -> Result<(), Error> {
        let name = pod_name(on.set, ordinal);
        let told = |error: &Error| self.tell_of_pod(on, Verb::Create, &name, Err(error));
        self.create_claims(on, &name, ordinal).await.inspect_err(told)?;
        let revision = if is_updated { on.update } else { on.current };
        let pod = new_pod(&on.owner, on.set, ordinal, revision.name(), &revision.data);
        let uid = match self.pods.objects().create::<Written>(on.owner.key, &pod).await {
            Ok(written) => {
                self.pods.note(on.owner.key, &written);
                written.metadata.uid
            }
            // Ours, and not known yet; or somebody else's, who is in the way.
            Err(error) if refusal::exists_already(&error) => return Err(error.into()),
            Err(error) if refusal::is_terminating(&error) => return Ok(()),
            Err(error) => {
                let error = error.into();
                told(&error);
                return Err(error);
            }
        };
        let pod = PodIdentity { name: &name, uid: &uid, is_wanted: true };
        let mended = self.mend_claims(on, pod, ordinal).await;
        mended.inspect_err(|error| self.tell_of_pod(on, Verb::Update, &name, Err(error)))?;
        self.tell_of_pod(on, Verb::Create, &name, Ok(()));
        Ok(())
    }

    async fn delete(&self, on: &Working<'_>, pod: &Pod) -> Result<(), Error> {
        let metadata = &pod.metadata;
        let preconditions = Preconditions { uid: Some(metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let key = on.owner.beside(metadata.name());
        match self.pods.objects().delete(&key, &params).await {
            // Another one has its name; this one is gone.
            Err(error) if !refusal::is_conflict(&error) => {
                let error = error.into();
                self.tell_of_pod(on, Verb::Delete, metadata.name(), Err(&error));
                return Err(error);
            }
            _ => {}
        }
        self.pods.note_deleted(on.owner.key, key, metadata.uid());
        self.tell_of_pod(on, Verb::Delete, metadata.name(), Ok(()));
        Ok(())
    }

    /// Makes a pod what it should be, as far as the server lets that be changed.
    async fn mend(&self, on: &Working<'_>, pod: &Arc<Pod>, ordinal: i64) -> Result<(), Error> {
        let (set, name) = (on.set, pod.metadata.name());
        let mut patch = json!({"metadata": {"resourceVersion": pod.metadata.resource_version()}});
        let mut is_changed = false;
        if !identity_matches(set, pod, ordinal) {
            patch["metadata"]["labels"] = identity_labels(set, ordinal);
            is_changed = true;
        }
        if !storage_matches(set, pod, ordinal) {
            self.create_claims(on, name, ordinal).await?;
            let whole: Option<Value> = self.pods.objects().get(&on.owner.beside(name)).await?;
            let others = whole.as_ref().and_then(|pod| pod.pointer("/spec/volumes")?.as_array());
            patch["spec"]["volumes"] = volumes(set, ordinal, others.map_or(&[], Vec::as_slice)).into();
            is_changed = true;
        }
        self.mend_claims(on, pod_identity(set, pod, ordinal), ordinal).await?;
        if is_changed {
            let (key, patch) = (on.owner.beside(name), Patch::Merge(patch));
            let written = self.pods.objects().patch::<Written>(&key, &PatchParams::default(), &patch).await?;
            self.pods.note(on.owner.key, &written);
        }
        Ok(())
    }

    /// Makes the claims of a pod that are not there. What is about to go is in the way.
    async fn create_claims(&self, on: &Working<'_>, pod: &str, ordinal: i64) -> Result<(), Error> {
        let mut failure = Ok(());
        for template in &on.set.claim_templates {
            let name = claim_name(on.set, template, ordinal);
            let done = match self.claims.store().get(&on.owner.beside(&name)) {
                Some(claim) if claim.metadata.is_terminating() => Err(Error::ClaimIsGoing(name.into())),
                Some(_) => Ok(()),
                None => self.create_claim(on, template, pod, ordinal).await,
            };
            failure = failure.and(done);
        }
        failure
    }

    async fn create_claim(
        &self,
        on: &Working<'_>,
        template: &ClaimTemplate,
        pod: &str,
        ordinal: i64,
    ) -> Result<(), Error> {
        let name = claim_name(on.set, template, ordinal);
        let claim = new_claim(on.set, template, ordinal);
        // A claim that stays when its set goes is collected by nobody, so no set that is gone may make one.
        if !on.set.retention.delete_when_deleted {
            on.owner.confirm::<Error>(&self.objects, &self.writes).await?;
        }
        match self.claim_objects.create::<Written>(on.owner.key, &claim).await {
            Ok(written) => {
                self.claim_writes.note(on.owner.key, &written.metadata.resource_version);
                let message =
                    format!("Create Claim {name} Pod {pod} in StatefulSet {} success", on.owner.key.name());
                self.pods.tell(&on.owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // Neither will the pod be.
            Err(error) if refusal::is_terminating(&error) => Ok(()),
            Err(error) => {
                if !refusal::exists_already(&error) {
                    let message = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {}",
                        on.owner.key.name(),
                        refusal::message(&error)
                    );
                    self.pods.tell(&on.owner, EventType::Warning, "FailedCreate", message);
                }
                Err(Error::Claim(name.into(), error))
            }
        }
    }

    /// Has the claims of a pod go with whom they should.
    async fn mend_claims(&self, on: &Working<'_>, pod: PodIdentity<'_>, ordinal: i64) -> Result<(), Error> {
        for template in &on.set.claim_templates {
            let key = on.owner.beside(&claim_name(on.set, template, ordinal));
            let Some(claim) = self.claims.store().get(&key) else { continue };
            let owners = &claim.metadata.owner_references;
            if claims::has_other_controller(on.set, owners, pod) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    key.name()
                );
                self.pods.tell(&on.owner, EventType::Warning, "ConflictingController", message);
            }
            if let Owners::Replace(owners) = claims::owners(on.set, owners, pod) {
                let patch = Patch::Merge(owners_patch(&claim.metadata, &owners));
                let params = PatchParams::default();
                let written = self.claim_objects.patch::<Written>(&key, &params, &patch).await;
                let written = written.map_err(|error| Error::Claim(key.name().into(), error))?;
                self.claim_writes.note(on.owner.key, &written.metadata.resource_version);
            }
        }
        Ok(())
    }

    fn tell_of_pod(&self, on: &Working<'_>, verb: Verb, pod: &str, outcome: Result<(), &Error>) {
        let (successful, failed) = verb.reasons();
        let about = format!("{verb} Pod {pod} in StatefulSet {}", on.owner.key.name());
        match outcome {
            Ok(()) => {
                self.pods.tell(&on.owner, EventType::Normal, successful, format!("{about} successful"));
            }
            Err(error) => {
                let message = format!("{about} failed error: {}", error.told());
                self.pods.tell(&on.owner, EventType::Warning, failed, message);
            }
        }
    }
}
