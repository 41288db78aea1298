//! What is to be done for a StatefulSet, as a pure function.
//!
//! Pods come and go in the order of their ordinals, unless the set is parallel: the next one is made when all
//! before it are available, the last one is deleted when all that stay are, and an old one is replaced when
//! all after it are new and available.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::claims::{self, Owners, PodIdentity, claim_name};
use super::identity::{identity_matches, ordinal, pod_name, revision_of, storage_matches};
use super::object::{StatefulSet, Status, Strategy};
use crate::view::{self, PersistentVolumeClaim, Phase, Pod};

/// The most pods of a parallel set that are made before what became of them is looked at: as for replica sets.
const BURST: usize = 500;

/// All that is known.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) set: &'a StatefulSet,
    /// Those of the set.
    pub(super) pods: &'a [Arc<Pod>],
    /// A claim beside the set.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    /// The name of the revision that pods were made after, until all are new.
    pub(super) current_revision: &'a str,
    /// The name of the revision of how the set looks now.
    pub(super) update_revision: &'a str,
    /// How often the name of a revision was taken.
    pub(super) collision_count: i32,
    pub(super) now: Timestamp,
}

/// One thing to do.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Make the pod of an ordinal, and its claims before it.
    Create {
        ordinal: i64,
        is_updated: bool,
    },
    Delete(Arc<Pod>),
    /// Make the claims that a pod waits for, and have them go with whom they should.
    CompleteClaims {
        pod: Arc<Pod>,
        ordinal: i64,
    },
    /// Make a pod say who it is, have its claims, and these go with whom they should.
    Mend {
        pod: Arc<Pod>,
        ordinal: i64,
    },
    /// Have the claims of a pod that is to go go with whom they should.
    MendClaims {
        pod: Arc<Pod>,
        ordinal: i64,
    },
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What has to be done before the next; each can be done in any order.
    pub(super) phases: Vec<Vec<Act>>,
    pub(super) status: Status,
    /// When to look again, should nothing happen before.
    pub(super) again: Option<Duration>,
}

/// Whether to go on after looking at a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Wait,
}

/// The pods of a set, those it wants and those it does not.
struct Sorted {
    wanted: BTreeMap<i64, Arc<Pod>>,
    /// Largest ordinal first.
    condemned: Vec<(i64, Arc<Pod>)>,
}

pub(super) fn plan(known: &Known<'_>) -> Plan {
    let again = |pod: &Arc<Pod>| view::next_available(pod, known.set.min_ready_seconds, known.now);
    let mut plan =
        Plan { phases: Vec::new(), status: count(known), again: known.pods.iter().filter_map(again).min() };
    if !known.set.metadata.is_terminating() {
        known.act(&mut plan);
    }
    complete(known.set, &mut plan.status);
    plan
}

impl Known<'_> {
    fn act(&self, plan: &mut Plan) {
        let sorted = self.sorted();
        let (acts, next) = self.look_after_wanted(&sorted);
        plan.phases.push(acts);
        if next == Next::Wait {
            return;
        }
        let mending = |(ordinal, pod): &(i64, Arc<Pod>)| {
            let mend = !self.claims_go_right(pod, *ordinal);
            mend.then(|| Act::MendClaims { pod: Arc::clone(pod), ordinal: *ordinal })
        };
        plan.phases.push(sorted.condemned.iter().filter_map(mending).collect());
        let (acts, next) = self.delete_condemned(&sorted);
        plan.phases.push(acts);
        if next == Next::Wait {
            return;
        }
        if let Some(pod) = self.next_to_update(&sorted) {
            plan.status.current_replicas -= 1;
            plan.phases.push(vec![Act::Delete(pod)]);
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

    /// What is to be done about the pods that the set wants.
    fn look_after_wanted(&self, sorted: &Sorted) -> (Vec<Act>, Next) {
        let (mut acts, mut made) = (Vec::new(), 0);
        for ordinal in self.set.ordinals() {
            let pod = sorted.wanted.get(&ordinal);
            made += usize::from(pod.is_none());
            let next = match pod {
                Some(pod) => self.look_after(pod, ordinal, &mut acts),
                None => self.make(ordinal, &mut acts),
            };
            if (next == Next::Wait && !self.set.is_parallel) || made >= BURST {
                return (acts, Next::Wait);
            }
        }
        (acts, Next::GoOn)
    }

    fn make(&self, ordinal: i64, acts: &mut Vec<Act>) -> Next {
        let name = pod_name(self.set, ordinal);
        let is_stale = |claim: &PersistentVolumeClaim| {
            claims::blocks_new_pod(self.set, &claim.metadata.owner_references, &name)
        };
        if !self.claims(ordinal).flatten().any(|claim| is_stale(&claim)) {
            acts.push(Act::Create { ordinal, is_updated: self.is_made_updated(ordinal) });
        }
        Next::Wait
    }

    /// Whether a pod is made as the set looks now. Those before the partition come back as they were.
    fn is_made_updated(&self, ordinal: i64) -> bool {
        let old = match self.set.strategy {
            Strategy::RollingUpdate { partition: Some(partition) } => partition,
            Strategy::RollingUpdate { partition: None } => self.set.status.current_replicas,
            Strategy::OnDelete => 0,
        };
        ordinal >= i64::from(self.set.first_ordinal) + i64::from(old)
    }

    fn look_after(&self, pod: &Arc<Pod>, ordinal: i64, acts: &mut Vec<Act>) -> Next {
        let set = self.set;
        if pod.is_finished() {
            if !pod.metadata.is_terminating() {
                acts.push(Act::Delete(Arc::clone(pod)));
            }
            // It comes back when it is gone.
            return Next::Wait;
        }
        let is_pending = pod.status.phase == Phase::Pending;
        let claims_go_right = self.claims_go_right(pod, ordinal);
        if is_pending && (!claims_go_right || self.claims(ordinal).any(|claim| claim.is_none())) {
            acts.push(Act::CompleteClaims { pod: Arc::clone(pod), ordinal });
        }
        let is_right = identity_matches(set, pod, ordinal)
            && storage_matches(set, pod, ordinal)
            && (is_pending || claims_go_right);
        if !is_right && (set.is_parallel || self.is_settled(pod)) {
            acts.push(Act::Mend { pod: Arc::clone(pod), ordinal });
        }
        if self.is_settled(pod) { Next::GoOn } else { Next::Wait }
    }

    /// Whether those after it need not wait for a pod.
    fn is_settled(&self, pod: &Pod) -> bool {
        pod.status.phase == Phase::Running && !self.is_unavailable(pod)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        pod.metadata.is_terminating() || !pod.is_available(self.set.min_ready_seconds, self.now)
    }

    /// The claims of an ordinal, as far as they are there.
    fn claims(&self, ordinal: i64) -> impl Iterator<Item = Option<Arc<PersistentVolumeClaim>>> {
        let templates = self.set.claim_templates.iter();
        templates.map(move |template| (self.claim)(&claim_name(self.set, template, ordinal)))
    }

    fn claims_go_right(&self, pod: &Pod, ordinal: i64) -> bool {
        let pod = pod_identity(self.set, pod, ordinal);
        let goes_right = |claim: &PersistentVolumeClaim| {
            claims::owners(self.set, &claim.metadata.owner_references, pod) == Owners::Keep
        };
        self.claims(ordinal).flatten().all(|claim| goes_right(&claim))
    }

    /// Deletes what is too much: one after the other from the end, when all others are available.
    fn delete_condemned(&self, sorted: &Sorted) -> (Vec<Act>, Next) {
        let first_unavailable = self.first_unavailable(sorted);
        let mut acts = Vec::new();
        for (_, pod) in &sorted.condemned {
            let is_terminating = pod.metadata.is_terminating();
            if self.set.is_parallel {
                acts.extend((!is_terminating).then(|| Act::Delete(Arc::clone(pod))));
                continue;
            }
            let is_first = first_unavailable.is_some_and(|first| Arc::ptr_eq(first, pod));
            if !is_terminating && (is_first || self.is_settled(pod)) {
                acts.push(Act::Delete(Arc::clone(pod)));
            }
            return (acts, Next::Wait);
        }
        (acts, Next::GoOn)
    }

    /// The first pod that is not available; none also if that is one that is not there.
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

    /// The last pod that is not as the set looks now, if all after it are, and are available.
    fn next_to_update(&self, sorted: &Sorted) -> Option<Arc<Pod>> {
        let Strategy::RollingUpdate { partition } = self.set.strategy else { return None };
        let first = i64::from(self.set.first_ordinal) + i64::from(partition.unwrap_or_default());
        for ordinal in (first..=*self.set.ordinals().end()).rev() {
            // One that is not there is not available.
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

/// What the status says of the pods that are there.
fn count(known: &Known<'_>) -> Status {
    let set = known.set;
    let mut status = Status {
        observed_generation: set.metadata.generation,
        current_revision: known.current_revision.into(),
        update_revision: known.update_revision.into(),
        collision_count: Some(known.collision_count),
        ..Status::default()
    };
    for pod in known.pods {
        status.replicas += 1;
        let is_ready = pod.status.phase == Phase::Running && pod.is_ready();
        let is_available = is_ready && pod.is_available(set.min_ready_seconds, known.now);
        status.ready_replicas += i32::from(is_ready);
        status.available_replicas += i32::from(is_available);
        let is_of = |revision: &str| !pod.metadata.is_terminating() && revision_of(pod) == revision;
        status.current_replicas += i32::from(is_of(known.current_revision));
        status.updated_replicas += i32::from(is_of(known.update_revision));
    }
    status
}

/// When all pods are as the set looks now, that is what pods are made after.
fn complete(set: &StatefulSet, status: &mut Status) {
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if set.is_rolling() && all == [set.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}
