//! ReplicaSets and ReplicationControllers: keep a number of equal pods running.
//!
//! Both kinds share this controller; [`Kind`] holds the differences.

mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_base::Clock;
use coracle_base::metrics::{Buckets, Histogram};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile, StaleCache,
};
use kube::api::{Patch, PatchParams};

use crate::pod_control::{
    ClaimError, Owner, OwnerKind, PodControl, StaleSyncs, controlled_by, index_by_controller,
    owners_to_enqueue, pod_from_template,
};
use crate::view::{
    Pod, PodSelector, ReplicaSet, Replicated, ReplicationController, replica_sets, replication_controllers,
};
use crate::{Registration, Settings, api_error};
use plan::{Plan, age_ratios, plan};
use status::Failure;

/// Concurrent reconciles: the defaults of `--concurrent-replicaset-syncs` and `--concurrent-rc-syncs`.
const WORKERS: usize = 5;

pub(crate) const REPLICA_SET: Registration =
    Registration { name: "replicaset-controller", register: register_replica_sets };

pub(crate) const REPLICATION_CONTROLLER: Registration =
    Registration { name: "replicationcontroller-controller", register: register_replication_controllers };

/// Differences between the two kinds.
#[derive(Clone, Copy, Debug)]
struct Kind {
    owner: OwnerKind,
    /// Name of the queue in metrics.
    queue: &'static str,
    group: &'static str,
    resource: &'static str,
    /// True if the status counts terminating pods.
    counts_terminating: bool,
}

fn register_replica_sets(manager: &mut Manager, settings: &Settings) {
    let owner = OwnerKind { api_version: "apps/v1", kind: "ReplicaSet" };
    let kind =
        Kind { owner, queue: "replicaset", group: "apps", resource: "replicasets", counts_terminating: true };
    let control = PodControl::new(manager, "replicaset-controller");
    let sets: Informer<ReplicaSet> = replica_sets(manager);
    let objects = Objects::of::<k8s_openapi::api::apps::v1::ReplicaSet>(manager.client());
    let replicas = Replicas::new(manager, settings, kind, control, sets, objects);
    add(manager, REPLICA_SET.name, replicas);
}

fn register_replication_controllers(manager: &mut Manager, settings: &Settings) {
    let owner = OwnerKind { api_version: "v1", kind: "ReplicationController" };
    let kind = Kind {
        owner,
        queue: "replicationmanager",
        group: "",
        resource: "replicationcontrollers",
        counts_terminating: false,
    };
    let control = PodControl::new(manager, "replication-controller");
    let sets: Informer<ReplicationController> = replication_controllers(manager);
    let objects = Objects::of::<k8s_openapi::api::core::v1::ReplicationController>(manager.client());
    let replicas = Replicas::new(manager, settings, kind, control, sets, objects);
    add(manager, REPLICATION_CONTROLLER.name, replicas);
}

fn add<S: PodSelector>(manager: &mut Manager, name: &'static str, reconcile: Replicas<S>) {
    let (kind, sets, pods) = (reconcile.kind, reconcile.sets.clone(), reconcile.control.informer().clone());
    index_by_controller(sets.store());
    let known = sets.store().clone();
    let controller = Controller::new(name, reconcile)
        .queue_name(kind.queue)
        .watches(&sets, |change| [change.key.clone()])
        .watches(&pods, move |change: &Change<Pod>| {
            let owners = || owners_to_enqueue(change, kind.owner, &known, Replicated::selector);
            if is_relevant(change) { owners() } else { Vec::new() }
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// True if a change may affect a set. A set of a thousand pods that checked all of them whenever one gets a node or
/// an address would check a million.
fn is_relevant(change: &Change<Pod>) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => relevant_fields(old) != relevant_fields(new),
        _ => true,
    }
}

/// All fields of a pod that matter, except those that determine the deletion order.
fn relevant_fields(pod: &Pod) -> impl PartialEq + '_ {
    let ready = pod.condition("Ready").filter(|ready| ready.is_true());
    let metadata = &pod.metadata;
    let is_over = (pod.is_finished(), metadata.is_terminating());
    let ready_since = ready.map(|ready| ready.last_transition_time);
    (metadata.uid(), is_over, ready_since, &metadata.labels, metadata.controller())
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("cannot make or delete pods")]
    Pods(#[source] kube::Error),
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

struct Replicas<S> {
    kind: Kind,
    control: PodControl,
    sets: Informer<Replicated<S>>,
    objects: Objects,
    /// Writes to the sets themselves.
    writes: ReadYourWrites,
    clock: Clock,
    stale: StaleSyncs,
    /// Age of deleted pods relative to the youngest.
    age_ratio: Arc<Histogram>,
}

impl<S: PodSelector> Reconcile for Replicas<S> {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.stale.check("", "pods", self.control.seen(key).await)?;
        self.stale.check(self.kind.group, self.kind.resource, self.writes.seen(key, &self.sets).await)?;
        let Some(set) = self.sets.store().get(key) else { return Ok(Action::AwaitChange) };
        let owner = Owner { key, kind: self.kind.owner, metadata: &set.metadata };
        let candidates = self.control.candidates(&owner);
        let fits = |pod: &Pod| set.selector().matches(&pod.metadata.labels);
        let is_own = |pod: &Pod| pod.metadata.is_controlled_by(set.metadata.uid()) && fits(pod);
        let terminating = candidates.iter().filter(|pod| is_terminating(pod) && is_own(pod)).count();
        let active = candidates.into_iter().filter(|pod| pod.is_active());
        let active = self.control.claim(&self.objects, &owner, active, fits, &[]).await?;
        let outcome = self.scale(&owner, &set, &active).await;

        let now = self.clock.now();
        let failure = outcome.as_ref().err().map(|(failure, _)| failure);
        let terminating = self.kind.counts_terminating.then_some(terminating);
        let status = status::status(&set, &active, terminating, failure, now);
        self.write_status(&owner, &set, &status).await?;
        match outcome {
            Err((_, error)) => Err(Error::Pods(error)),
            Ok(()) => Ok(status::next_availability(&active, set.spec.min_ready_seconds, now)),
        }
    }
}

/// True if a pod is terminating and not finished.
fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && !pod.is_finished()
}

impl<S: PodSelector> Replicas<S> {
    fn new(
        manager: &Manager,
        settings: &Settings,
        kind: Kind,
        control: PodControl,
        sets: Informer<Replicated<S>>,
        objects: Objects,
    ) -> Self {
        let metrics = manager.metrics();
        // Kubernetes counts both kinds under these names.
        let stale = StaleSyncs::new(metrics, "replicaset_controller_stale_sync_skips_total");
        let age_ratio = metrics.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Age of deleted ready pods relative to the youngest ready pod.",
            Buckets::exponential(0.25, 2.0, 6),
        );
        let (writes, clock) = (ReadYourWrites::default(), settings.clock.clone());
        Self { kind, control, sets, objects, writes, clock, stale, age_ratio }
    }

    /// Creates or deletes pods.
    async fn scale(
        &self,
        owner: &Owner<'_>,
        set: &Replicated<S>,
        active: &[Arc<Pod>],
    ) -> Result<(), (Failure, kube::Error)> {
        if set.metadata.is_terminating() {
            return Ok(());
        }
        let now = self.clock.now();
        match plan(set.replicas(), active, || self.related(owner, set), now) {
            Plan::Nothing => Ok(()),
            Plan::Create(count) => {
                let pod = pod_from_template(owner, &set.spec.template);
                let created = self.control.create_many(owner, &pod, count).await;
                created.map_err(|error| (Failure::create(&error), error))
            }
            Plan::Delete(pods) => {
                for ratio in age_ratios(active, &pods, now) {
                    self.age_ratio.observe(ratio);
                }
                let deleted = self.control.delete_many(owner, pods).await;
                deleted.map_err(|error| (Failure::delete(&error), error))
            }
        }
    }

    /// Pods of all sets with the same owner as this one.
    fn related(&self, owner: &Owner<'_>, set: &Replicated<S>) -> Vec<Arc<Pod>> {
        let cluster = owner.key.cluster();
        let Some(parent) = set.metadata.controller() else { return Vec::new() };
        let siblings = controlled_by(self.sets.store(), cluster, &parent.uid);
        let pods = self.control.informer().store();
        siblings.iter().flat_map(|set| controlled_by(pods, cluster, set.metadata.uid())).collect()
    }

    /// Writes the status if it has changed. If the set has changed in the meantime, its event enqueues it again.
    async fn write_status(
        &self,
        owner: &Owner<'_>,
        set: &Replicated<S>,
        status: &crate::view::ReplicatedStatus,
    ) -> Result<(), Error> {
        if *status == set.status {
            return Ok(());
        }
        let patch = Patch::Merge(status::patch(set, status));
        let written =
            self.objects.patch_subresource(owner.key, "status", &PatchParams::default(), &patch).await;
        owner.note(&self.writes, set.metadata.resource_version(), &written);
        api_error::ignore_outdated(written).map_err(Error::Status)
    }
}
