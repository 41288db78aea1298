//! StatefulSets: pods with stable identities, each with a name and claims of its own, created and replaced in order.
//!
//! Templates are stored in ControllerRevisions; a pod carries the name of its revision. Claims outlive their pods,
//! unless the retention policy deletes them.

mod claims;
mod identity;
mod object;
mod plan;
mod pods;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Controller, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile, Selection,
    StaleCache,
};
use k8s_openapi::api::apps::v1::StatefulSet as WholeStatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim as WholeClaim;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api_error;
use crate::history::{self, ControllerRevision, CreateResult, History, classify, oldest};
use crate::pod_control::{
    ClaimError, Owner, OwnerKind, PodControl, StaleSyncs, owners_to_enqueue, slow_start,
};
use crate::view::{PersistentVolumeClaim, Pod, claims};
use crate::{Registration, Settings};
use identity::{ordinal, revision_of};
use object::{StatefulSet, Status};
use plan::{Observed, Step, plan};
use pods::SyncContext;

const KIND: OwnerKind = OwnerKind { api_version: "apps/v1", kind: "StatefulSet" };

/// Concurrent reconciles: the default of `--concurrent-statefulset-syncs`.
const WORKERS: usize = 5;

/// Label with the hash of a revision.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Number of names tried for a revision in one sync.
const MAX_COLLISIONS: usize = 100;

pub(crate) const REGISTRATION: Registration = Registration { name: "statefulset-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let sets: Informer<StatefulSet> = manager.informer(Selection::of::<WholeStatefulSet>());
    let (claims, history) = (claims(manager), History::new(manager));
    let pods = PodControl::new(manager, REGISTRATION.name);
    let (of_pod, of_revision) = (sets.clone(), sets.clone());
    let (all_pods, all_revisions) = (pods.informer().clone(), history.informer().clone());
    let reconcile = StatefulSets {
        objects: Objects::of::<WholeStatefulSet>(manager.client()),
        claim_objects: Objects::of::<WholeClaim>(manager.client()),
        sets: sets.clone(),
        claims: claims.clone(),
        pods,
        history,
        writes: ReadYourWrites::default(),
        claim_writes: ReadYourWrites::default(),
        clock: settings.clock.clone(),
        stale: StaleSyncs::new(manager.metrics(), "statefulset_controller_stale_sync_skips_total"),
    };
    let of_claim = sets.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("statefulset")
        .watches(&sets, |change| [change.key.clone()])
        .watches(&all_pods, move |change| {
            owners_to_enqueue(change, KIND, of_pod.store(), |set| &set.selector)
        })
        .watches(&all_revisions, move |change| {
            owners_to_enqueue(change, KIND, of_revision.store(), |set| &set.selector)
        })
        .watches(&claims, move |change| {
            let is_gone = change.new.is_none();
            let beside = of_claim.store().in_namespace(change.key.cluster(), change.key.namespace());
            let waiting = beside.into_iter().filter(|set| is_gone && has_claim(set, change.key.name()));
            let key = |set: Arc<StatefulSet>| {
                ObjectKey::namespaced(
                    change.key.cluster().clone(),
                    change.key.namespace(),
                    set.metadata.name(),
                )
            };
            waiting.map(key).collect::<Vec<_>>()
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// True if a claim of this name belongs to the set.
fn has_claim(set: &StatefulSet, claim: &str) -> bool {
    set.claim_templates.iter().any(|template| {
        let pod = claim.strip_prefix(&*template.name).and_then(|rest| rest.strip_prefix('-'));
        pod.is_some_and(|pod| ordinal(set.metadata.name(), pod).is_some())
    })
}

struct StatefulSets {
    objects: Objects,
    claim_objects: Objects,
    sets: Informer<StatefulSet>,
    claims: Informer<PersistentVolumeClaim>,
    pods: PodControl,
    history: History,
    /// Writes to the sets themselves.
    writes: ReadYourWrites,
    claim_writes: ReadYourWrites,
    clock: Clock,
    stale: StaleSyncs,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error(transparent)]
    Claims(#[from] ClaimError),
    #[error("request to the server failed")]
    Request(#[from] kube::Error),
    #[error("failed to create PVC {0}")]
    Claim(Box<str>, #[source] kube::Error),
    #[error("pvc {0} is being deleted")]
    ClaimTerminating(Box<str>),
    #[error("hash collision: all names tried for the new revision are taken")]
    Collision,
}

impl Error {
    /// Text for events.
    fn event_message(&self) -> String {
        match self {
            Self::Request(error) => api_error::message(error),
            Self::Claim(name, error) => format!("failed to create PVC {name}: {}", api_error::message(error)),
            other => other.to_string(),
        }
    }
}

impl Reconcile for StatefulSets {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.stale.check("apps", "statefulsets", self.writes.seen(key, &self.sets).await)?;
        let claims = self.claim_writes.seen(key, &self.claims).await;
        self.stale.check("", "persistentvolumeclaims", claims)?;
        self.stale.check("", "pods", self.pods.seen(key).await)?;
        self.stale.check("apps", "controllerrevisions", self.history.seen(key).await)?;
        let Some(set) = self.sets.store().get(key) else { return Ok(Action::AwaitChange) };
        let owner = Owner { key, kind: KIND, metadata: &set.metadata };
        let requeue_after = self.sync(owner, &set).await?;
        Ok(requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

/// The revisions of a set.
struct Revisions {
    all: Vec<Arc<ControllerRevision>>,
    /// Revision of the old pods, until all are updated.
    current: Arc<ControllerRevision>,
    /// Revision of the current template.
    update: Arc<ControllerRevision>,
    collision_count: i32,
}

impl StatefulSets {
    async fn sync(&self, owner: Owner<'_>, set: &StatefulSet) -> Result<Option<Duration>, Error> {
        let is_member = |pod: &Pod| {
            let is_named = ordinal(set.metadata.name(), pod.metadata.name()).is_some();
            is_named && set.selector.matches(&pod.metadata.labels)
        };
        let candidates = self.pods.candidates(&owner);
        let pods = self.pods.claim(&self.objects, &owner, candidates, is_member, &[]).await?;
        let Some(revisions) = self.revisions(&owner, set).await? else { return Ok(None) };
        let claim = |name: &str| self.claims.store().get(&owner.namespaced_key(name));
        let plan = plan(&Observed {
            set,
            pods: &pods,
            claim: &claim,
            current_revision: revisions.current.name(),
            update_revision: revisions.update.name(),
            collision_count: revisions.collision_count,
            now: self.clock.now(),
        });
        let on = SyncContext { owner, set, current: &revisions.current, update: &revisions.update };
        let mut done = Ok(());
        for phase in &plan.phases {
            done = self.apply(&on, phase).await;
            if done.is_err() {
                break;
            }
        }
        self.write_status(&owner, set, &plan.status).await?;
        done?;
        self.truncate_history(&owner, set, &pods, &revisions).await?;
        Ok(plan.requeue_after)
    }

    /// Starts with small batches if the set is parallel.
    async fn apply(&self, on: &SyncContext<'_>, steps: &[Step]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let attempt = || async {
            match steps.get(next.fetch_add(1, Ordering::Relaxed)) {
                Some(step) => self.step(on, step).await,
                None => Ok(()),
            }
        };
        if on.set.is_parallel {
            return slow_start(steps.len(), attempt).await.1;
        }
        for step in steps {
            self.step(on, step).await?;
        }
        Ok(())
    }

    /// The revisions of a set, including that of its current template. A terminating set creates none: the garbage
    /// collector would delete it, and the set would never get rid of its dependents.
    async fn revisions(&self, owner: &Owner<'_>, set: &StatefulSet) -> Result<Option<Revisions>, Error> {
        let matches = |revision: &ControllerRevision| set.selector.matches(&revision.metadata.labels);
        let all = self.history.claim(&self.objects, owner, matches).await?;
        let classified = classify(&all, &set.snapshot);
        let mut collision_count = set.status.collision_count.unwrap_or_default();
        let update = match classified.current {
            Some(update) => {
                if update.revision < classified.number {
                    self.history.renumber(owner, &update, classified.number).await?;
                }
                update
            }
            None if set.metadata.is_terminating() => return Ok(None),
            None => self.create_revision(owner, set, classified.number, &mut collision_count).await?,
        };
        let current = all.iter().find(|revision| revision.name() == &*set.status.current_revision).cloned();
        let current = current.unwrap_or_else(|| Arc::clone(&update));
        Ok(Some(Revisions { all, current, update, collision_count }))
    }

    async fn create_revision(
        &self,
        owner: &Owner<'_>,
        set: &StatefulSet,
        number: i64,
        collision_count: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        // The revision of the observed generation exists, unless the set is gone.
        if set.status.observed_generation == set.metadata.generation {
            owner.ensure_exists::<Error>(&self.objects, &self.writes).await?;
        }
        let mut labels = set.template_labels.clone();
        labels[HASH_LABEL] = set.snapshot.hash(Some(*collision_count)).into();
        for _ in 0..MAX_COLLISIONS {
            let name = history::name(set.metadata.name(), &set.snapshot.hash(Some(*collision_count)));
            match self.history.create(owner, &name, &labels, &set.snapshot, number).await? {
                CreateResult::Created(revision) => return Ok(revision),
                CreateResult::Collision => *collision_count = collision_count.saturating_add(1),
            }
        }
        Err(Error::Collision)
    }

    /// Deletes the oldest revisions beyond the limit that no pod uses.
    async fn truncate_history(
        &self,
        owner: &Owner<'_>,
        set: &StatefulSet,
        pods: &[Arc<Pod>],
        revisions: &Revisions,
    ) -> kube::Result<()> {
        let Some(limit) = set.revision_history_limit else { return Ok(()) };
        let is_live = |revision: &ControllerRevision| {
            let name = revision.name();
            let is_used = || pods.iter().any(|pod| revision_of(pod) == name);
            name == revisions.current.name() || name == revisions.update.name() || is_used()
        };
        let old = revisions.all.iter().filter(|revision| !is_live(revision)).count();
        for revision in oldest(&revisions.all, old.saturating_sub(limit), is_live) {
            self.history.delete(owner, &revision).await?;
        }
        Ok(())
    }

    async fn write_status(&self, owner: &Owner<'_>, set: &StatefulSet, status: &Status) -> kube::Result<()> {
        if *status == set.status {
            return Ok(());
        }
        let version = set.metadata.resource_version();
        let metadata = json!({"uid": set.metadata.uid(), "resourceVersion": version});
        let patch = Patch::Merge(json!({"metadata": metadata, "status": status}));
        let params = PatchParams::default();
        let written = self.objects.patch_subresource(owner.key, "status", &params, &patch).await;
        owner.note(&self.writes, version, &written);
        api_error::ignore_outdated(written)
    }
}
