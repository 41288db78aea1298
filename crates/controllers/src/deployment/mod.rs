//! Deployments: one replica set per template, and rollouts from one to the next.
//!
//! [`plan`](plan::plan) decides on the next step; this module carries it out.

mod annotations;
mod conditions;
mod limits;
#[cfg(test)]
mod model;
mod plan;
mod rolling;
mod scaling;
mod sets;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_base::Clock;
use coracle_runtime::informer::{Labels, Store};
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, StaleCache, Written,
};
use k8s_openapi::api::apps::v1 as apps;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::pod_control::{
    ClaimError, Claims, Owner, OwnerKind, controlled_by, index_by_controller, orphans_in_namespace,
    owners_to_enqueue,
};
use crate::view::{
    Deployment, DeploymentStatus, Pod, ReplicaSet, StrategyType, deployments, pods, replica_sets,
};
use crate::{Registration, Settings, api_error};
use conditions::{PROGRESSING, SET_CREATE_ERROR};
use plan::{NewSet, Plan, SetUpdate, plan};
use sets::{POD_TEMPLATE_HASH, Sets};

/// Concurrent reconciles: the default of `--concurrent-deployment-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration = Registration { name: "deployment-controller", register };

const KIND: OwnerKind = OwnerKind { api_version: "apps/v1", kind: "Deployment" };

fn register(manager: &mut Manager, settings: &Settings) {
    let (deployments, sets, pods) = (deployments(manager), replica_sets(manager), pods(manager));
    index_by_controller(sets.store());
    index_by_controller(pods.store());
    let reconcile = Deployments {
        deployments: deployments.clone(),
        sets: sets.clone(),
        pods: pods.store().clone(),
        deployment_objects: Objects::of::<apps::Deployment>(manager.client()),
        set_objects: Objects::of::<apps::ReplicaSet>(manager.client()),
        deployment_writes: ReadYourWrites::default(),
        set_writes: ReadYourWrites::default(),
        recorder: manager.recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
    };
    let (known, known_sets) = (deployments.store().clone(), sets.store().clone());
    let all_deployments = known.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("deployment")
        .watches(&deployments, |change| [change.key.clone()])
        .watches(&sets, move |change: &Change<ReplicaSet>| {
            owners_to_enqueue(change, KIND, &known, Deployment::selector)
        })
        .watches(&pods, move |change: &Change<Pod>| {
            recreate_waiting_for(change, &known_sets, &all_deployments)
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// The Recreate deployment that may be waiting for the deletion of a pod before it creates new ones.
fn recreate_waiting_for(
    change: &Change<Pod>,
    sets: &Store<ReplicaSet>,
    deployments: &Store<Deployment>,
) -> Option<ObjectKey> {
    let (Some(gone), None) = (&change.old, &change.new) else { return None };
    let beside =
        |name: &str| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), name);
    let set = sets.get(&beside(&gone.metadata.controller()?.name))?;
    let key = beside(&set.metadata.controller()?.name);
    let deployment = deployments.get(&key)?;
    (deployment.spec.strategy.r#type == StrategyType::Recreate).then_some(key)
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("cannot write a replica set")]
    Set(#[source] kube::Error),
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
    #[error("hash collision: another replica set has the new set's name; retrying with a new hash")]
    Collision,
}

struct Deployments {
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: Store<Pod>,
    deployment_objects: Objects,
    set_objects: Objects,
    deployment_writes: ReadYourWrites,
    set_writes: ReadYourWrites,
    recorder: Recorder,
    clock: Clock,
}

impl Reconcile for Deployments {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.set_writes.seen(key, &self.sets).await?;
        self.deployment_writes.seen(key, &self.deployments).await?;
        let Some(deployment) = self.deployments.store().get(key) else { return Ok(Action::AwaitChange) };
        let owner = Owner { key, kind: KIND, metadata: &deployment.metadata };
        let sets = Sets::of(&deployment, self.claim(&owner, &deployment).await?);
        let plan = plan(&deployment, &sets, || self.old_pods_run(key, &sets), self.clock.now());
        self.apply(&owner, &deployment, plan).await
    }
}

impl Deployments {
    /// Returns the replica sets of the deployment, after adopting and releasing.
    async fn claim(
        &self,
        owner: &Owner<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Arc<ReplicaSet>>, ClaimError> {
        let store = self.sets.store();
        let mut candidates = controlled_by(store, owner.key.cluster(), owner.metadata.uid());
        candidates.extend(orphans_in_namespace(store, owner.key));
        let claims = Claims {
            owners: &self.deployment_objects,
            objects: &self.set_objects,
            writes: &self.set_writes,
            finalizers: &[],
        };
        let fits = |set: &ReplicaSet| deployment.selector().matches(&set.metadata.labels);
        claims.claim(owner, candidates, fits).await
    }

    /// True if an old set has a pod that is not finished.
    fn old_pods_run(&self, key: &ObjectKey, sets: &Sets) -> bool {
        let pods = |set: &Arc<ReplicaSet>| controlled_by(&self.pods, key.cluster(), set.metadata.uid());
        sets.old.iter().flat_map(pods).any(|pod| !pod.is_finished())
    }

    async fn apply(&self, owner: &Owner<'_>, deployment: &Deployment, plan: Plan) -> Result<Action, Error> {
        if let Some(new) = &plan.create
            && !self.create(owner, deployment, new).await?
        {
            return Ok(Action::AwaitChange);
        }
        for update in &plan.updates {
            self.update(owner, update).await?;
        }
        for set in &plan.delete {
            self.delete(owner, set).await?;
        }
        if plan.status != deployment.status || plan.revision.is_some() {
            self.write_status(owner, deployment, &plan.status, plan.revision.as_deref()).await?;
        }
        Ok(plan.requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    /// Creates a set. False if the namespace is terminating.
    async fn create(&self, owner: &Owner<'_>, deployment: &Deployment, new: &NewSet) -> Result<bool, Error> {
        match self.set_objects.create::<Written>(owner.key, &body(owner, deployment, new)).await {
            Ok(written) => {
                self.set_writes.note(owner.key, &written.metadata.resource_version);
                if new.replicas > 0 {
                    self.record_scaled(owner, &new.name, 0, new.replicas);
                }
                Ok(true)
            }
            Err(error) if api_error::already_exists(&error) => {
                self.resolve_collision(owner, deployment, new).await?;
                Err(Error::Collision)
            }
            Err(error) if api_error::namespace_is_terminating(&error) => Ok(false),
            Err(error) => {
                let message = format!(
                    "Failed to create new replica set \"{}\": {}",
                    new.name,
                    api_error::message(&error)
                );
                self.record_create_failed(owner, deployment, &message).await?;
                Err(Error::Set(error))
            }
        }
    }

    /// Increments the collision count, so that the next attempt has another name. If the existing set is the
    /// deployment's own, the informer has just not seen it yet.
    async fn resolve_collision(
        &self,
        owner: &Owner<'_>,
        deployment: &Deployment,
        new: &NewSet,
    ) -> Result<(), Error> {
        let there: Option<ReplicaSet> =
            self.set_objects.get(&owner.namespaced_key(&new.name)).await.map_err(Error::Set)?;
        let template = &deployment.spec.template;
        let is_own = |set: &ReplicaSet| {
            set.metadata.is_controlled_by(owner.metadata.uid())
                && set.spec.template.equals_except(template, POD_TEMPLATE_HASH)
        };
        match there {
            Some(set) if is_own(&set) => {
                self.set_writes.note(owner.key, set.metadata.resource_version());
                Ok(())
            }
            None => Ok(()),
            Some(_) => {
                let count = deployment.status.collision_count.unwrap_or_default().saturating_add(1);
                let status = DeploymentStatus { collision_count: Some(count), ..deployment.status.clone() };
                self.write_status(owner, deployment, &status, None).await
            }
        }
    }

    async fn record_create_failed(
        &self,
        owner: &Owner<'_>,
        deployment: &Deployment,
        message: &str,
    ) -> Result<(), Error> {
        self.record_event(owner, EventType::Warning, SET_CREATE_ERROR, message.to_owned());
        if status::deadline(deployment).is_none() {
            return Ok(());
        }
        let mut status = deployment.status.clone();
        let failed = conditions::new(PROGRESSING, "False", SET_CREATE_ERROR, message, self.clock.now());
        conditions::set(&mut status.conditions, failed);
        if status == deployment.status {
            return Ok(());
        }
        self.write_status(owner, deployment, &status, None).await
    }

    /// Patches a set. If it is gone or replaced, its event enqueues the deployment again.
    async fn update(&self, owner: &Owner<'_>, update: &SetUpdate) -> Result<(), Error> {
        let metadata = &update.set.metadata;
        let mut patch = json!({"metadata": {"uid": metadata.uid(), "annotations": update.annotations}});
        if let Some(replicas) = update.replicas {
            patch["spec"]["replicas"] = replicas.into();
        }
        if let Some(seconds) = update.min_ready_seconds {
            patch["spec"]["minReadySeconds"] = seconds.into();
        }
        let (key, patch) = (owner.namespaced_key(metadata.name()), Patch::Merge(patch));
        match self.set_objects.patch::<Written>(&key, &PatchParams::default(), &patch).await {
            Ok(written) => {
                self.set_writes.note(owner.key, &written.metadata.resource_version);
                if let Some(replicas) = update.replicas {
                    self.record_scaled(owner, metadata.name(), update.set.replicas(), replicas);
                }
                Ok(())
            }
            Err(error) if api_error::is_outdated(&error) => Ok(()),
            Err(error) => Err(Error::Set(error)),
        }
    }

    async fn delete(&self, owner: &Owner<'_>, set: &ReplicaSet) -> Result<(), Error> {
        let (key, uid) = (owner.namespaced_key(set.metadata.name()), set.metadata.uid());
        // Only in the observed version, which has no pods.
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(set.metadata.resource_version().to_owned()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.set_objects.delete(&key, &params).await {
            Ok(()) => {
                self.set_writes.note_deleted(owner.key, key, uid);
                Ok(())
            }
            Err(error) if api_error::is_conflict(&error) => Ok(()),
            Err(error) => Err(Error::Set(error)),
        }
    }

    /// Patches the status. If the deployment has changed, its event enqueues it again.
    async fn write_status(
        &self,
        owner: &Owner<'_>,
        deployment: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), Error> {
        let patch = Patch::Merge(status::patch(deployment, status, revision));
        let params = PatchParams::default();
        let written = self.deployment_objects.patch_subresource(owner.key, "status", &params, &patch).await;
        owner.note(&self.deployment_writes, deployment.metadata.resource_version(), &written);
        api_error::ignore_outdated(written).map_err(Error::Status)
    }

    fn record_scaled(&self, owner: &Owner<'_>, set: &str, from: i32, to: i32) {
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        self.record_event(owner, EventType::Normal, "ScalingReplicaSet", message);
    }

    fn record_event(&self, owner: &Owner<'_>, kind: EventType, reason: &'static str, message: String) {
        self.recorder.event(owner.key.cluster(), owner.reference(), kind, reason, message);
    }
}

/// Request body of a new set.
fn body(owner: &Owner<'_>, deployment: &Deployment, new: &NewSet) -> Value {
    let template = &deployment.spec.template;
    let labels: Labels = template.labels.iter().chain([(POD_TEMPLATE_HASH, new.hash.as_str())]).collect();
    let mut selector = deployment.spec.selector.written.clone();
    selector.match_labels.insert(POD_TEMPLATE_HASH.to_owned(), new.hash.clone());
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": new.name,
            "namespace": deployment.metadata.namespace(),
            "labels": labels,
            "annotations": new.annotations,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {
            "replicas": new.replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template.to_value_with(&labels),
        },
    })
}
