//! DaemonSets: one pod on every eligible node.
//!
//! Pods are created with a node affinity to the node's name, and the scheduler binds them. Each template is stored as
//! a ControllerRevision; pods carry its hash, by which a rolling update finds the old ones.

mod eligible;
mod failed;
mod node_affinity;
mod object;
mod plan;
mod pod;
mod rolling;
#[cfg(test)]
mod tests;
mod tolerations;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Clock;
use coracle_runtime::informer::Store;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Selection, StaleCache, Written,
};
use k8s_openapi::api::apps::v1::DaemonSet as WholeDaemonSet;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api_error;
use crate::history::{self, ControllerRevision, CreateResult, History, classify, oldest};
use crate::pod_control::{
    ClaimError, Owner, OwnerKind, PodControl, StaleSyncs, owners_to_enqueue, slow_start,
};
use crate::view::{Node, PODS_BY_NODE, Pod, nodes, pods_by_node};
use crate::{Registration, Settings};
use eligible::eligible;
use failed::FailedPods;
use object::{DaemonSet, Status};
use plan::{FinishedPod, HASH_LABEL, Observed, Plan, min_delay, next_available, plan, status};

const KIND: OwnerKind = OwnerKind { api_version: "apps/v1", kind: "DaemonSet" };

/// Concurrent reconciles: the default of `--concurrent-daemonset-syncs`.
const WORKERS: usize = 2;

/// Maximum number of pods created or deleted per reconcile (`BurstReplicas` in Kubernetes' `pkg/controller/daemon`).
const BURST: usize = 250;

pub(crate) const REGISTRATION: Registration = Registration { name: "daemonset-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let sets: Informer<DaemonSet> = manager.informer(Selection::of::<WholeDaemonSet>());
    let (nodes, history) = (nodes(manager), History::new(manager));
    let pods = PodControl::new(manager, REGISTRATION.name);
    let (of_node, of_pod, of_revision) = (sets.clone(), sets.clone(), sets.clone());
    let (all_pods, all_revisions) = (pods_by_node(manager), history.informer().clone());
    let on_node = all_pods.clone();
    let reconcile = DaemonSets {
        objects: Objects::of::<WholeDaemonSet>(manager.client()),
        sets: sets.clone(),
        nodes: nodes.clone(),
        pods,
        history,
        writes: ReadYourWrites::default(),
        clock: settings.clock.clone(),
        failed: Mutex::default(),
        stale: StaleSyncs::new(manager.metrics(), "daemonset_controller_stale_sync_skips_total"),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("daemonset")
        .watches(&sets, |change| [change.key.clone()])
        .watches(&nodes, move |change| sets_affected(change, of_node.store(), on_node.store()))
        .watches(&all_pods, move |change| {
            owners_to_enqueue(change, KIND, of_pod.store(), |set| &set.selector)
        })
        .watches(&all_revisions, move |change| {
            owners_to_enqueue(change, KIND, of_revision.store(), |set| &set.selector)
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// Sets whose eligibility for a node has changed.
fn sets_affected(change: &Change<Node>, sets: &Store<DaemonSet>, pods: &Store<Pod>) -> Vec<ObjectKey> {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let (Some(old), Some(new)) = (old, new)
        && old.metadata.labels == new.metadata.labels
        && old.spec.taints == new.spec.taints
    {
        return Vec::new();
    }
    let cluster = change.key.cluster();
    let mut sets = sets.in_cluster(cluster);
    let there =
        if old.is_none() { pods.by_index(PODS_BY_NODE, cluster, change.key.name()) } else { Vec::new() };
    sets.retain(|set| is_affected(set, old, new, &there));
    let key = |set: &Arc<DaemonSet>| {
        ObjectKey::namespaced(cluster.clone(), set.metadata.namespace(), set.metadata.name())
    };
    sets.iter().map(key).collect()
}

/// True if the set's eligibility for the node has changed, or if a new node already has pods of the set: a node that
/// was deleted and returns may have old pods that should not run there any more.
fn is_affected(set: &DaemonSet, old: Option<&Node>, new: Option<&Node>, there: &[Arc<Pod>]) -> bool {
    let wanted = |node: Option<&Node>| node.map(|node| eligible(set, node)).unwrap_or_default();
    wanted(old) != wanted(new) || there.iter().any(|pod| pod.metadata.is_controlled_by(set.metadata.uid()))
}

struct DaemonSets {
    objects: Objects,
    sets: Informer<DaemonSet>,
    nodes: Informer<Node>,
    pods: PodControl,
    history: History,
    /// Writes to the sets themselves.
    writes: ReadYourWrites,
    clock: Clock,
    failed: Mutex<FailedPods>,
    stale: StaleSyncs,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("request to the server failed")]
    Request(#[from] kube::Error),
    #[error(
        "hash collision: another controller revision has the new revision's name; retrying with a new hash"
    )]
    Collision,
}

impl Reconcile for DaemonSets {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.stale.check("apps", "daemonsets", self.writes.seen(key, &self.sets).await)?;
        self.stale.check("", "pods", self.pods.seen(key).await)?;
        self.stale.check("apps", "controllerrevisions", self.history.seen(key).await)?;
        let Some(set) = self.sets.store().get(key) else { return Ok(Action::AwaitChange) };
        let owner = Owner { key, kind: KIND, metadata: &set.metadata };
        if set.selector.is_everything() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.pods.record_event(&owner, EventType::Warning, "SelectingAll", message);
            return Ok(Action::AwaitChange);
        }
        // Its revisions and pods may be deleted in any order, so its status can no longer be computed.
        if set.metadata.is_terminating() {
            return Ok(Action::AwaitChange);
        }
        let requeue_after = self.sync(&owner, &set).await?;
        Ok(requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

impl DaemonSets {
    async fn sync(&self, owner: &Owner<'_>, set: &DaemonSet) -> Result<Option<std::time::Duration>, Error> {
        let matches = |pod: &Pod| set.selector.matches(&pod.metadata.labels);
        let candidates = self.pods.candidates(owner);
        let pods = self.pods.claim(&self.objects, owner, candidates, matches, &[]).await?;
        let (hash, old) = self.revision(owner, set, &pods).await?;
        let nodes = self.nodes.store().in_cluster(owner.key.cluster());
        let known = Observed { set, nodes: &nodes, pods: &pods, hash: &hash, now: self.clock.now() };
        let plan = {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            plan(&known, &mut failed)
        };
        let done = self.apply(owner, set, &plan, &hash).await;
        let cleaned = match done {
            Ok(()) => self.truncate_history(owner, set, &pods, &old).await,
            failed => failed,
        };
        self.write_status(owner, set, &status(&known)).await?;
        cleaned?;
        let mut requeue_after = plan.requeue_after;
        if let Some(wait) = next_available(&known) {
            min_delay(&mut requeue_after, wait);
        }
        Ok(requeue_after)
    }

    async fn apply(&self, owner: &Owner<'_>, set: &DaemonSet, plan: &Plan, hash: &str) -> kube::Result<()> {
        for FinishedPod { pod, node, failed } in &plan.finished {
            let pod = format!("{}/{}", pod.metadata.namespace(), pod.metadata.name());
            if *failed {
                let message = format!("Found failed daemon pod {pod} on node {node}, will try to kill it");
                self.pods.record_event(owner, EventType::Warning, "FailedDaemonPod", message);
            } else {
                let message =
                    format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it");
                self.pods.record_event(owner, EventType::Normal, "SucceededDaemonPod", message);
            }
        }
        let created = self.create(owner, set, &plan.create, hash).await;
        let finished = plan.finished.iter().map(|finished| &finished.pod);
        let to_delete = finished.chain(&plan.delete).take(BURST).cloned().collect();
        self.pods.delete_many(owner, to_delete).await?;
        created
    }

    async fn create(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        nodes: &[Box<str>],
        hash: &str,
    ) -> kube::Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let template = pod::new_pod(owner, set, hash);
        let next = AtomicUsize::new(0);
        let create = || {
            let pod = nodes.get(next.fetch_add(1, Ordering::Relaxed));
            let pod = pod.map(|node| pod::bind(template.clone(), node));
            async move {
                match self.pods.create(owner, &pod).await {
                    Err(error) if !api_error::namespace_is_terminating(&error) => Err(error),
                    _ => Ok(()),
                }
            }
        };
        slow_start(nodes.len().min(BURST), create).await.1
    }

    /// The hash of the current template, and the old revisions.
    async fn revision(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        pods: &[Arc<Pod>],
    ) -> Result<(String, Vec<Arc<ControllerRevision>>), Error> {
        let matches = |revision: &ControllerRevision| set.selector.matches(&revision.metadata.labels);
        let revisions = self.history.claim(&self.objects, owner, matches).await?;
        for revision in revisions.iter().filter(|revision| !revision.metadata.labels.contains_key(HASH_LABEL))
        {
            self.history.label(owner, revision, HASH_LABEL, revision.name()).await?;
        }
        let classified = classify(&revisions, &set.snapshot);
        let Some(current) = classified.current else {
            let created = self.create_revision(owner, set, classified.number).await?;
            return Ok((hash_of(&created).to_owned(), classified.old));
        };
        let hash = hash_of(&current);
        if !classified.duplicates.is_empty() {
            self.relabel(owner, pods, hash).await?;
        }
        for duplicate in &classified.duplicates {
            self.history.delete(owner, duplicate).await?;
        }
        if current.revision < classified.number {
            self.history.renumber(owner, &current, classified.number).await?;
        }
        Ok((hash.to_owned(), classified.old))
    }

    async fn create_revision(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        number: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        // The revision of the observed generation exists, unless the set is gone.
        if set.status.observed_generation == set.metadata.generation {
            owner.ensure_exists::<Error>(&self.objects, &self.writes).await?;
        }
        let hash = set.snapshot.hash(set.status.collision_count);
        let mut labels = set.template_labels.clone();
        labels[HASH_LABEL] = hash.as_str().into();
        let name = history::name(set.metadata.name(), &hash);
        match self.history.create(owner, &name, &labels, &set.snapshot, number).await? {
            CreateResult::Created(revision) => Ok(revision),
            CreateResult::Collision => {
                let count = set.status.collision_count.unwrap_or_default().saturating_add(1);
                self.patch_status(owner, json!({"collisionCount": count})).await?;
                Err(Error::Collision)
            }
        }
    }

    /// Relabels pods of duplicate revisions to the one that stays.
    async fn relabel(&self, owner: &Owner<'_>, pods: &[Arc<Pod>], hash: &str) -> kube::Result<()> {
        let others = pods.iter().filter(|pod| pod.metadata.labels.get(HASH_LABEL) != Some(hash));
        for pod in others {
            let patch = Patch::Merge(json!({"metadata": {"labels": {HASH_LABEL: hash}}}));
            let key = owner.namespaced_key(pod.metadata.name());
            let written: Written = self.pods.objects().patch(&key, &PatchParams::default(), &patch).await?;
            self.pods.note(owner.key, &written);
        }
        Ok(())
    }

    /// Deletes the oldest revisions beyond the limit that no pod uses.
    async fn truncate_history(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        pods: &[Arc<Pod>],
        old: &[Arc<ControllerRevision>],
    ) -> kube::Result<()> {
        let is_live = |revision: &ControllerRevision| {
            let hash = hash_of(revision);
            pods.iter().any(|pod| pod.metadata.labels.get(HASH_LABEL) == Some(hash))
        };
        for revision in oldest(old, old.len().saturating_sub(set.revision_history_limit), is_live) {
            self.history.delete(owner, &revision).await?;
        }
        Ok(())
    }

    async fn write_status(&self, owner: &Owner<'_>, set: &DaemonSet, status: &Status) -> kube::Result<()> {
        if *status == set.status {
            return Ok(());
        }
        self.patch_status(owner, json!(status)).await
    }

    async fn patch_status(&self, owner: &Owner<'_>, status: Value) -> kube::Result<()> {
        let version = owner.metadata.resource_version();
        let metadata = json!({"uid": owner.metadata.uid(), "resourceVersion": version});
        let patch = Patch::Merge(json!({"metadata": metadata, "status": status}));
        let params = PatchParams::default();
        let written = self.objects.patch_subresource(owner.key, "status", &params, &patch).await;
        owner.note(&self.writes, version, &written);
        api_error::ignore_outdated(written)
    }
}

/// Value of the pod label for a revision.
fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.get(HASH_LABEL).unwrap_or_else(|| revision.name())
}
