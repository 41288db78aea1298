//! DaemonSets: one pod on every node that fits.
//!
//! Pods are made for a node by an affinity to its name, and the scheduler binds them. What a set looks like
//! is kept in ControllerRevisions; pods carry the hash of theirs, by which a rolling update finds the old
//! ones.

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

use crate::history::{self, ControllerRevision, History, Made, oldest, place};
use crate::pod_control::{
    ClaimError, Owner, OwnerKind, PodControl, StaleSyncs, owners_concerned, slow_start,
};
use crate::refusal;
use crate::view::{Node, PODS_BY_NODE, Pod, nodes, pods_by_node};
use crate::{Registration, Settings};
use eligible::eligible;
use failed::FailedPods;
use object::{DaemonSet, Status};
use plan::{Ended, HASH_LABEL, Known, Plan, next_available, plan, sooner, status};

const KIND: OwnerKind = OwnerKind { api_version: "apps/v1", kind: "DaemonSet" };

/// Sets that are worked on at a time: upstream's default of `--concurrent-daemonset-syncs`.
const WORKERS: usize = 2;

/// The most pods that are made or deleted before what became of them is looked at (`BurstReplicas` in
/// upstream's `pkg/controller/daemon`).
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
        .watches(&nodes, move |change| sets_concerned(change, of_node.store(), on_node.store()))
        .watches(&all_pods, move |change| owners_concerned(change, KIND, of_pod.store(), |set| &set.selector))
        .watches(&all_revisions, move |change| {
            owners_concerned(change, KIND, of_revision.store(), |set| &set.selector)
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// The sets that want something else of a node than before.
fn sets_concerned(change: &Change<Node>, sets: &Store<DaemonSet>, pods: &Store<Pod>) -> Vec<ObjectKey> {
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
    sets.retain(|set| is_concerned(set, old, new, &there));
    let key = |set: &Arc<DaemonSet>| {
        ObjectKey::namespaced(cluster.clone(), set.metadata.namespace(), set.metadata.name())
    };
    sets.iter().map(key).collect()
}

/// Whether a set wants something else of a node than before, where these pods are if it is new. One that was
/// away may have pods from before, and not be wanted any more.
fn is_concerned(set: &DaemonSet, old: Option<&Node>, new: Option<&Node>, there: &[Arc<Pod>]) -> bool {
    let wanted = |node: Option<&Node>| node.map(|node| eligible(set, node)).unwrap_or_default();
    wanted(old) != wanted(new) || there.iter().any(|pod| pod.metadata.is_controlled_by(set.metadata.uid()))
}

struct DaemonSets {
    objects: Objects,
    sets: Informer<DaemonSet>,
    nodes: Informer<Node>,
    pods: PodControl,
    history: History,
    /// To the sets themselves.
    writes: ReadYourWrites,
    clock: Clock,
    failed: Mutex<FailedPods>,
    stale: StaleSyncs,
}

/// Why a set could not be looked after.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("the server refused")]
    Refused(#[from] kube::Error),
    #[error("another revision has the name of the new one, which gets another")]
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
            self.pods.tell(&owner, EventType::Warning, "SelectingAll", message);
            return Ok(Action::AwaitChange);
        }
        // Its revisions and pods may be gone in any order by now, so nothing can be said of it.
        if set.metadata.is_terminating() {
            return Ok(Action::AwaitChange);
        }
        let again = self.look_after(&owner, &set).await?;
        Ok(again.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

impl DaemonSets {
    async fn look_after(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
    ) -> Result<Option<std::time::Duration>, Error> {
        let matches = |pod: &Pod| set.selector.matches(&pod.metadata.labels);
        let candidates = self.pods.candidates(owner);
        let pods = self.pods.claim(&self.objects, owner, candidates, matches, &[]).await?;
        let (hash, old) = self.revision(owner, set, &pods).await?;
        let nodes = self.nodes.store().in_cluster(owner.key.cluster());
        let known = Known { set, nodes: &nodes, pods: &pods, hash: &hash, now: self.clock.now() };
        let plan = {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            plan(&known, &mut failed)
        };
        let done = self.carry_out(owner, set, &plan, &hash).await;
        let cleaned = match done {
            Ok(()) => self.forget_revisions(owner, set, &pods, &old).await,
            failed => failed,
        };
        self.write_status(owner, set, &status(&known)).await?;
        cleaned?;
        let mut again = plan.again;
        if let Some(wait) = next_available(&known) {
            sooner(&mut again, wait);
        }
        Ok(again)
    }

    async fn carry_out(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        plan: &Plan,
        hash: &str,
    ) -> kube::Result<()> {
        for Ended { pod, node, failed } in &plan.ended {
            let pod = format!("{}/{}", pod.metadata.namespace(), pod.metadata.name());
            if *failed {
                let message = format!("Found failed daemon pod {pod} on node {node}, will try to kill it");
                self.pods.tell(owner, EventType::Warning, "FailedDaemonPod", message);
            } else {
                let message =
                    format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it");
                self.pods.tell(owner, EventType::Normal, "SucceededDaemonPod", message);
            }
        }
        let created = self.create(owner, set, &plan.create, hash).await;
        let ended = plan.ended.iter().map(|ended| &ended.pod);
        let gone = ended.chain(&plan.delete).take(BURST).cloned().collect();
        self.pods.delete_many(owner, gone).await?;
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
                    Err(error) if !refusal::is_terminating(&error) => Err(error),
                    _ => Ok(()),
                }
            }
        };
        slow_start(nodes.len().min(BURST), create).await.1
    }

    /// The hash of how the set looks now, and the revisions of how it looked before.
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
        let placed = place(&revisions, &set.snapshot);
        let Some(current) = placed.current else {
            let made = self.make_revision(owner, set, placed.number).await?;
            return Ok((hash_of(&made).to_owned(), placed.old));
        };
        let hash = hash_of(&current);
        if !placed.duplicates.is_empty() {
            self.relabel(owner, pods, hash).await?;
        }
        for duplicate in &placed.duplicates {
            self.history.delete(owner, duplicate).await?;
        }
        if current.revision < placed.number {
            self.history.renumber(owner, &current, placed.number).await?;
        }
        Ok((hash.to_owned(), placed.old))
    }

    async fn make_revision(
        &self,
        owner: &Owner<'_>,
        set: &DaemonSet,
        number: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        // What it looked like when its status was last written is not gone unless the set is.
        if set.status.observed_generation == set.metadata.generation {
            owner.confirm::<Error>(&self.objects, &self.writes).await?;
        }
        let hash = set.snapshot.hash(set.status.collision_count);
        let mut labels = set.template_labels.clone();
        labels[HASH_LABEL] = hash.as_str().into();
        let name = history::name(set.metadata.name(), &hash);
        match self.history.make(owner, &name, &labels, &set.snapshot, number).await? {
            Made::There(revision) => Ok(revision),
            Made::Collision => {
                let count = set.status.collision_count.unwrap_or_default().saturating_add(1);
                self.patch_status(owner, json!({"collisionCount": count})).await?;
                Err(Error::Collision)
            }
        }
    }

    /// Makes pods of a revision that there is twice be of the one that stays.
    async fn relabel(&self, owner: &Owner<'_>, pods: &[Arc<Pod>], hash: &str) -> kube::Result<()> {
        let others = pods.iter().filter(|pod| pod.metadata.labels.get(HASH_LABEL) != Some(hash));
        for pod in others {
            let patch = Patch::Merge(json!({"metadata": {"labels": {HASH_LABEL: hash}}}));
            let key = owner.beside(pod.metadata.name());
            let written: Written = self.pods.objects().patch(&key, &PatchParams::default(), &patch).await?;
            self.pods.note(owner.key, &written);
        }
        Ok(())
    }

    /// Deletes the oldest revisions above the limit that no pod is of.
    async fn forget_revisions(
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
        refusal::unless_outdated(written)
    }
}

/// The label of the pods of a revision.
fn hash_of(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.get(HASH_LABEL).unwrap_or_else(|| revision.name())
}
