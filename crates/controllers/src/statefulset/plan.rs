//! Plans the pods of a StatefulSet. Pure.
//!
//! Unless the set is parallel, pods are created and deleted in the order of their ordinals: the next one is created
//! when all before it are available, the last one is deleted when all that stay are, and an old one is replaced when
//! all after it are updated and available.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::claims::{self, Owners, PodIdentity, claim_name};
use super::identity::{identity_matches, ordinal, pod_name, revision_of, storage_matches};
use super::object::{StatefulSet, Status, Strategy};
use crate::view::{self, PersistentVolumeClaim, Phase, Pod};

/// Maximum number of pods of a parallel set created per sync, as for replica sets.
const BURST: usize = 500;

/// Observed state that the plan is based on.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a StatefulSet,
    /// Pods of the set.
    pub(super) pods: &'a [Arc<Pod>],
    /// Looks up a claim in the set's namespace.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    /// Name of the revision of the old pods, until all are updated.
    pub(super) current_revision: &'a str,
    /// Name of the revision of the current template.
    pub(super) update_revision: &'a str,
    /// Number of name collisions of revisions.
    pub(super) collision_count: i32,
    pub(super) now: Timestamp,
}

/// A step of the plan.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Create the pod with this ordinal, after its claims.
    Create {
        ordinal: i64,
        is_updated: bool,
    },
    Delete(Arc<Pod>),
    /// Create the missing claims of a pending pod, and set their owners.
    CompleteClaims {
        pod: Arc<Pod>,
        ordinal: i64,
    },
    /// Set identity labels and volumes of a pod, and the owners of its claims.
    Repair {
        pod: Arc<Pod>,
        ordinal: i64,
    },
    /// Set the owners of the claims of a pod that is to be deleted.
    RepairClaims {
        pod: Arc<Pod>,
        ordinal: i64,
    },
}

/// Steps to take.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Each phase must be complete before the next; its steps can be taken in any order.
    pub(super) phases: Vec<Vec<Step>>,
    pub(super) status: Status,
    /// When to reconcile again if nothing changes.
    pub(super) requeue_after: Option<Duration>,
}

/// How to proceed after a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Wait,
}

/// Pods of a set, within its replicas and beyond.
struct Sorted {
    wanted: BTreeMap<i64, Arc<Pod>>,
    /// By descending ordinal.
    condemned: Vec<(i64, Arc<Pod>)>,
}

pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let requeue_after =
        |pod: &Arc<Pod>| view::next_available(pod, observed.set.min_ready_seconds, observed.now);
    let mut plan = Plan {
        phases: Vec::new(),
        status: count(observed),
        requeue_after: observed.pods.iter().filter_map(requeue_after).min(),
    };
    if !observed.set.metadata.is_terminating() {
        observed.act(&mut plan);
    }
    complete(observed.set, &mut plan.status);
    plan
}

impl Observed<'_> {
    fn act(&self, plan: &mut Plan) {
        let sorted = self.sorted();
        let (steps, next) = self.plan_wanted(&sorted);
        plan.phases.push(steps);
        if next == Next::Wait {
            return;
        }
        let repair_claims = |(ordinal, pod): &(i64, Arc<Pod>)| {
            let repair = !self.claims_have_right_owners(pod, *ordinal);
            repair.then(|| Step::RepairClaims { pod: Arc::clone(pod), ordinal: *ordinal })
        };
        plan.phases.push(sorted.condemned.iter().filter_map(repair_claims).collect());
        let (steps, next) = self.delete_condemned(&sorted);
        plan.phases.push(steps);
        if next == Next::Wait {
            return;
        }
        if let Some(pod) = self.next_to_update(&sorted) {
            plan.status.current_replicas -= 1;
            plan.phases.push(vec![Step::Delete(pod)]);
        }
    }

    fn sorted(&self) -> Sorted {
        let ordinals = self.set.ordinals();
        let (mut wanted, mut condemned) = (BTreeMap::new(), Vec::new());
        for pod in self.pods {
            match ordinal(self.set.metadata.name(), pod.metadata.name()) {
                Some(ordinal) if ordinals.contains(&ordinal) => {
                    wanted.insert(ordinal, Arc::clone(pod));
                }
                Some(ordinal) => condemned.push((ordinal, Arc::clone(pod))),
                None => {}
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Sorted { wanted, condemned }
    }

    /// Plans for the pods within the replicas.
    fn plan_wanted(&self, sorted: &Sorted) -> (Vec<Step>, Next) {
        let (mut steps, mut created) = (Vec::new(), 0);
        for ordinal in self.set.ordinals() {
            let pod = sorted.wanted.get(&ordinal);
            created += usize::from(pod.is_none());
            let next = match pod {
                Some(pod) => self.plan_pod(pod, ordinal, &mut steps),
                None => self.create(ordinal, &mut steps),
            };
            if (next == Next::Wait && !self.set.is_parallel) || created >= BURST {
                return (steps, Next::Wait);
            }
        }
        (steps, Next::Continue)
    }

    fn create(&self, ordinal: i64, steps: &mut Vec<Step>) -> Next {
        let name = pod_name(self.set, ordinal);
        let is_stale = |claim: &PersistentVolumeClaim| {
            claims::blocks_new_pod(self.set, &claim.metadata.owner_references, &name)
        };
        if !self.claims(ordinal).flatten().any(|claim| is_stale(&claim)) {
            steps.push(Step::Create { ordinal, is_updated: self.is_made_updated(ordinal) });
        }
        Next::Wait
    }

    /// True if a pod is created from the update revision. Pods before the partition are created from the current one.
    fn is_made_updated(&self, ordinal: i64) -> bool {
        let old = match self.set.strategy {
            Strategy::RollingUpdate { partition: Some(partition) } => partition,
            Strategy::RollingUpdate { partition: None } => self.set.status.current_replicas,
            Strategy::OnDelete => 0,
        };
        ordinal >= i64::from(self.set.first_ordinal) + i64::from(old)
    }

    fn plan_pod(&self, pod: &Arc<Pod>, ordinal: i64, steps: &mut Vec<Step>) -> Next {
        let set = self.set;
        if pod.is_finished() {
            if !pod.metadata.is_terminating() {
                steps.push(Step::Delete(Arc::clone(pod)));
            }
            // It is created again when it is gone.
            return Next::Wait;
        }
        let is_pending = pod.status.phase == Phase::Pending;
        let claims_have_right_owners = self.claims_have_right_owners(pod, ordinal);
        if is_pending && (!claims_have_right_owners || self.claims(ordinal).any(|claim| claim.is_none())) {
            steps.push(Step::CompleteClaims { pod: Arc::clone(pod), ordinal });
        }
        let is_right = identity_matches(set, pod, ordinal)
            && storage_matches(set, pod, ordinal)
            && (is_pending || claims_have_right_owners);
        if !is_right && (set.is_parallel || self.is_settled(pod)) {
            steps.push(Step::Repair { pod: Arc::clone(pod), ordinal });
        }
        if self.is_settled(pod) { Next::Continue } else { Next::Wait }
    }

    /// True if later pods need not wait for this one.
    fn is_settled(&self, pod: &Pod) -> bool {
        pod.status.phase == Phase::Running && !self.is_unavailable(pod)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        pod.metadata.is_terminating() || !pod.is_available(self.set.min_ready_seconds, self.now)
    }

    /// The claims of an ordinal, as far as they exist.
    fn claims(&self, ordinal: i64) -> impl Iterator<Item = Option<Arc<PersistentVolumeClaim>>> {
        let templates = self.set.claim_templates.iter();
        templates.map(move |template| (self.claim)(&claim_name(self.set, template, ordinal)))
    }

    fn claims_have_right_owners(&self, pod: &Pod, ordinal: i64) -> bool {
        let pod = pod_identity(self.set, pod, ordinal);
        let has_right_owners = |claim: &PersistentVolumeClaim| {
            claims::owners(self.set, &claim.metadata.owner_references, pod) == Owners::Keep
        };
        self.claims(ordinal).flatten().all(|claim| has_right_owners(&claim))
    }

    /// Deletes surplus pods: one after the other from the end, when all others are available.
    fn delete_condemned(&self, sorted: &Sorted) -> (Vec<Step>, Next) {
        let first_unavailable = self.first_unavailable(sorted);
        let mut steps = Vec::new();
        for (_, pod) in &sorted.condemned {
            let is_terminating = pod.metadata.is_terminating();
            if self.set.is_parallel {
                steps.extend((!is_terminating).then(|| Step::Delete(Arc::clone(pod))));
                continue;
            }
            let is_first = first_unavailable.is_some_and(|first| Arc::ptr_eq(first, pod));
            if !is_terminating && (is_first || self.is_settled(pod)) {
                steps.push(Step::Delete(Arc::clone(pod)));
            }
            return (steps, Next::Wait);
        }
        (steps, Next::Continue)
    }

    /// The first unavailable pod; `None` also if a pod does not exist.
    fn first_unavailable<'a>(&self, sorted: &'a Sorted) -> Option<&'a Arc<Pod>> {
        for ordinal in self.set.ordinals() {
            match sorted.wanted.get(&ordinal) {
                Some(pod) if self.is_unavailable(pod) => return Some(pod),
                Some(_) => {}
                None => return None,
            }
        }
        let mut condemned = sorted.condemned.iter().rev().map(|(_, pod)| pod);
        condemned.find(|pod| self.is_unavailable(pod))
    }

    /// The last outdated pod, if all pods after it are updated and available.
    fn next_to_update(&self, sorted: &Sorted) -> Option<Arc<Pod>> {
        let Strategy::RollingUpdate { partition } = self.set.strategy else { return None };
        let first = i64::from(self.set.first_ordinal) + i64::from(partition.unwrap_or_default());
        for ordinal in (first..=*self.set.ordinals().end()).rev() {
            // A missing pod is not available.
            let pod = sorted.wanted.get(&ordinal)?;
            if revision_of(pod) != self.update_revision && !pod.metadata.is_terminating() {
                return Some(Arc::clone(pod));
            }
            if self.is_unavailable(pod) {
                return None;
            }
        }
        None
    }
}

/// A pod as the owner of its claims.
pub(super) fn pod_identity<'a>(set: &StatefulSet, pod: &'a Pod, ordinal: i64) -> PodIdentity<'a> {
    let is_wanted = set.ordinals().contains(&ordinal);
    PodIdentity { name: pod.metadata.name(), uid: pod.metadata.uid(), is_wanted }
}

/// Status with the counted pods.
fn count(observed: &Observed<'_>) -> Status {
    let set = observed.set;
    let mut status = Status {
        observed_generation: set.metadata.generation,
        current_revision: observed.current_revision.into(),
        update_revision: observed.update_revision.into(),
        collision_count: Some(observed.collision_count),
        ..Status::default()
    };
    for pod in observed.pods {
        status.replicas += 1;
        let is_ready = pod.status.phase == Phase::Running && pod.is_ready();
        let is_available = is_ready && pod.is_available(set.min_ready_seconds, observed.now);
        status.ready_replicas += i32::from(is_ready);
        status.available_replicas += i32::from(is_available);
        let is_of = |revision: &str| !pod.metadata.is_terminating() && revision_of(pod) == revision;
        status.current_replicas += i32::from(is_of(observed.current_revision));
        status.updated_replicas += i32::from(is_of(observed.update_revision));
    }
    status
}

/// When all pods are updated, the update revision becomes the current one.
fn complete(set: &StatefulSet, status: &mut Status) {
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if set.is_rolling() && all == [set.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}
