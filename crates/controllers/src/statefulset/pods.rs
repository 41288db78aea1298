//! Creates, repairs and deletes the pods of a StatefulSet and their claims, and records events.

use std::fmt;
use std::sync::Arc;

use coracle_runtime::{EventType, Written};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::claims::{self, Owners, PodIdentity, claim_name, new_claim, owners_patch};
use super::identity::{identity_labels, identity_matches, new_pod, pod_name, storage_matches, volumes};
use super::object::{ClaimTemplate, StatefulSet};
use super::plan::{Step, pod_identity};
use super::{Error, StatefulSets};
use crate::api_error;
use crate::history::ControllerRevision;
use crate::pod_control::Owner;
use crate::view::Pod;

/// A set, and the revisions of its pods.
pub(super) struct SyncContext<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) set: &'a StatefulSet,
    pub(super) current: &'a ControllerRevision,
    pub(super) update: &'a ControllerRevision,
}

/// Operation on a pod or a claim, as in events.
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
    pub(super) async fn step(&self, on: &SyncContext<'_>, step: &Step) -> Result<(), Error> {
        match step {
            Step::Create { ordinal, is_updated } => self.create(on, *ordinal, *is_updated).await,
            Step::Delete(pod) => self.delete(on, pod).await,
            Step::CompleteClaims { pod, ordinal } => {
                self.create_claims(on, pod.metadata.name(), *ordinal).await?;
                let repaired = self.repair_claims(on, pod_identity(on.set, pod, *ordinal), *ordinal).await;
                repaired.inspect_err(|error| {
                    self.record_pod_event(on, Verb::Update, pod.metadata.name(), Err(error))
                })
            }
            Step::Repair { pod, ordinal } => {
                let repaired = self.repair(on, pod, *ordinal).await;
                self.record_pod_event(on, Verb::Update, pod.metadata.name(), repaired.as_ref().map(|&()| ()));
                repaired
            }
            Step::RepairClaims { pod, ordinal } => {
                self.repair_claims(on, pod_identity(on.set, pod, *ordinal), *ordinal).await
            }
        }
    }

    /// Creates a pod, after its claims.
    async fn create(&self, on: &SyncContext<'_>, ordinal: i64, is_updated: bool) -> Result<(), Error> {
        let name = pod_name(on.set, ordinal);
        let record_failure = |error: &Error| self.record_pod_event(on, Verb::Create, &name, Err(error));
        self.create_claims(on, &name, ordinal).await.inspect_err(record_failure)?;
        let revision = if is_updated { on.update } else { on.current };
        let pod = new_pod(&on.owner, on.set, ordinal, revision.name(), &revision.data);
        let uid = match self.pods.objects().create::<Written>(on.owner.key, &pod).await {
            Ok(written) => {
                self.pods.note(on.owner.key, &written);
                written.metadata.uid
            }
            // It is the set's own and the informer has not seen it yet, or another pod is in the way.
            Err(error) if api_error::already_exists(&error) => return Err(error.into()),
            Err(error) if api_error::namespace_is_terminating(&error) => return Ok(()),
            Err(error) => {
                let error = error.into();
                record_failure(&error);
                return Err(error);
            }
        };
        let pod = PodIdentity { name: &name, uid: &uid, is_wanted: true };
        let repaired = self.repair_claims(on, pod, ordinal).await;
        repaired.inspect_err(|error| self.record_pod_event(on, Verb::Update, &name, Err(error)))?;
        self.record_pod_event(on, Verb::Create, &name, Ok(()));
        Ok(())
    }

    async fn delete(&self, on: &SyncContext<'_>, pod: &Pod) -> Result<(), Error> {
        let metadata = &pod.metadata;
        let preconditions = Preconditions { uid: Some(metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let key = on.owner.namespaced_key(metadata.name());
        match self.pods.objects().delete(&key, &params).await {
            // The name belongs to another pod; this one is gone.
            Err(error) if !api_error::is_conflict(&error) => {
                let error = error.into();
                self.record_pod_event(on, Verb::Delete, metadata.name(), Err(&error));
                return Err(error);
            }
            _ => {}
        }
        self.pods.note_deleted(on.owner.key, key, metadata.uid());
        self.record_pod_event(on, Verb::Delete, metadata.name(), Ok(()));
        Ok(())
    }

    /// Repairs a pod, as far as the server allows that.
    async fn repair(&self, on: &SyncContext<'_>, pod: &Arc<Pod>, ordinal: i64) -> Result<(), Error> {
        let (set, name) = (on.set, pod.metadata.name());
        let mut patch = json!({"metadata": {"resourceVersion": pod.metadata.resource_version()}});
        let mut is_changed = false;
        if !identity_matches(set, pod, ordinal) {
            patch["metadata"]["labels"] = identity_labels(set, ordinal);
            is_changed = true;
        }
        if !storage_matches(set, pod, ordinal) {
            self.create_claims(on, name, ordinal).await?;
            let whole: Option<Value> = self.pods.objects().get(&on.owner.namespaced_key(name)).await?;
            let others = whole.as_ref().and_then(|pod| pod.pointer("/spec/volumes")?.as_array());
            patch["spec"]["volumes"] = volumes(set, ordinal, others.map_or(&[], Vec::as_slice)).into();
            is_changed = true;
        }
        self.repair_claims(on, pod_identity(set, pod, ordinal), ordinal).await?;
        if is_changed {
            let (key, patch) = (on.owner.namespaced_key(name), Patch::Merge(patch));
            let written = self.pods.objects().patch::<Written>(&key, &PatchParams::default(), &patch).await?;
            self.pods.note(on.owner.key, &written);
        }
        Ok(())
    }

    /// Creates missing claims of a pod. Terminating claims are in the way.
    async fn create_claims(&self, on: &SyncContext<'_>, pod: &str, ordinal: i64) -> Result<(), Error> {
        let mut failure = Ok(());
        for template in &on.set.claim_templates {
            let name = claim_name(on.set, template, ordinal);
            let done = match self.claims.store().get(&on.owner.namespaced_key(&name)) {
                Some(claim) if claim.metadata.is_terminating() => Err(Error::ClaimTerminating(name.into())),
                Some(_) => Ok(()),
                None => self.create_claim(on, template, pod, ordinal).await,
            };
            failure = failure.and(done);
        }
        failure
    }

    async fn create_claim(
        &self,
        on: &SyncContext<'_>,
        template: &ClaimTemplate,
        pod: &str,
        ordinal: i64,
    ) -> Result<(), Error> {
        let name = claim_name(on.set, template, ordinal);
        let claim = new_claim(on.set, template, ordinal);
        // A claim that is not deleted with its set would never be garbage collected, so a deleted set must not create
        // one.
        if !on.set.retention.delete_when_deleted {
            on.owner.ensure_exists::<Error>(&self.objects, &self.writes).await?;
        }
        match self.claim_objects.create::<Written>(on.owner.key, &claim).await {
            Ok(written) => {
                self.claim_writes.note(on.owner.key, &written.metadata.resource_version);
                let message =
                    format!("Create Claim {name} Pod {pod} in StatefulSet {} success", on.owner.key.name());
                self.pods.record_event(&on.owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            // Creating the pod will fail, too.
            Err(error) if api_error::namespace_is_terminating(&error) => Ok(()),
            Err(error) => {
                if !api_error::already_exists(&error) {
                    let message = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {}",
                        on.owner.key.name(),
                        api_error::message(&error)
                    );
                    self.pods.record_event(&on.owner, EventType::Warning, "FailedCreate", message);
                }
                Err(Error::Claim(name.into(), error))
            }
        }
    }

    /// Sets the owners of a pod's claims.
    async fn repair_claims(
        &self,
        on: &SyncContext<'_>,
        pod: PodIdentity<'_>,
        ordinal: i64,
    ) -> Result<(), Error> {
        for template in &on.set.claim_templates {
            let key = on.owner.namespaced_key(&claim_name(on.set, template, ordinal));
            let Some(claim) = self.claims.store().get(&key) else { continue };
            let owners = &claim.metadata.owner_references;
            if claims::has_other_controller(on.set, owners, pod) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    key.name()
                );
                self.pods.record_event(&on.owner, EventType::Warning, "ConflictingController", message);
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

    fn record_pod_event(&self, on: &SyncContext<'_>, verb: Verb, pod: &str, outcome: Result<(), &Error>) {
        let (successful, failed) = verb.reasons();
        let about = format!("{verb} Pod {pod} in StatefulSet {}", on.owner.key.name());
        match outcome {
            Ok(()) => {
                self.pods.record_event(
                    &on.owner,
                    EventType::Normal,
                    successful,
                    format!("{about} successful"),
                );
            }
            Err(error) => {
                let message = format!("{about} failed error: {}", error.event_message());
                self.pods.record_event(&on.owner, EventType::Warning, failed, message);
            }
        }
    }
}
