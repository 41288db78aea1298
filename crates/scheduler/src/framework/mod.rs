//! Extension points of the scheduling framework, modelled on kube-scheduler's.
//!
//! A scheduling rule is a [`Plugin`]. It precomputes per-pod state once, in `pre_filter` and `pre_score`;
//! the returned
//! [`NodeFilter`] or [`NodeScore`] is then called for node after node without allocating. Programs that
//! embed the scheduler register their own plugins in a [`Registry`](crate::Registry).

mod binding;
pub(crate) mod event;
mod handle;
pub(crate) mod profile;
pub(crate) mod status;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

pub use binding::{BindError, Binding, PreBind};
pub use event::{About, ClusterEvent, PodChanges};
pub use handle::Handle;
pub(crate) use handle::{Signal, Signals};
pub(crate) use profile::{PluginSet, Profile};
pub use status::{Code, Diagnosis, Rejection};
pub(crate) use waiting::{PodId, Verdict};
pub use waiting::{WaitingPod, WaitingPods};

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
pub use crate::cycle::Attempt;
use crate::view::Pod;

/// The highest score a plugin may give a node.
pub const MAX_NODE_SCORE: i64 = 100;

/// Filter state of one plugin for one pod.
pub trait NodeFilter<'w> {
    /// Checks whether the pod can run on the node.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection>;

    /// Updates the filter as if `_pod` were also on the node. Afterwards it is called for this node only.
    fn add_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// Updates the filter as if `_pod` were not on the node. Afterwards it is called for this node only.
    fn remove_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// A copy, for evaluating hypothetical pods.
    fn boxed(&self) -> Filter<'w>;
}

/// A boxed [`NodeFilter`].
pub type Filter<'w> = Box<dyn NodeFilter<'w> + 'w>;

/// Score state of one plugin for one pod.
pub trait NodeScore {
    /// Scores one node. Anything that can fail belongs in [`Plugin::pre_score`].
    fn score(&self, info: &NodeInfo) -> i64;

    /// Scales the scores of all nodes to the range from zero to [`MAX_NODE_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Result of a PreFilter plugin.
pub enum PreFilter<'w> {
    /// The plugin does not apply to the pod.
    Skip,
    /// No node is feasible.
    Reject(Rejection),
    /// Every node has to pass this filter.
    Filter(Filter<'w>),
    /// Only these nodes are examined, and each has to pass the filter.
    Only(Vec<NodeIndex>, Filter<'w>),
}

/// Result of a PreScore plugin.
pub enum PreScore<'w> {
    /// The plugin does not apply to the pod.
    Skip,
    /// Scores each feasible node.
    Score(Box<dyn NodeScore + 'w>),
    /// PreScore failed. The pod is retried after a backoff.
    Error(String),
}

/// Result of a PostFilter plugin, which tries to make an unschedulable pod schedulable.
#[derive(Debug, Default)]
pub struct PostFilter {
    /// Message for the `FailedScheduling` event and the pod's condition.
    pub message: String,
    /// Change of the pod's nominated node. Further plugins run until one nominates a node.
    pub nomination: Nomination,
    /// Pods to evict.
    pub victims: Vec<Arc<Pod>>,
}

/// Change of the node a pod is nominated to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// Keep the current nomination.
    #[default]
    Keep,
    /// Remove the nomination.
    Clear,
    /// Nominate this node.
    Node(Box<str>),
}

/// Result of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The pod may be bound.
    Allow,
    /// The pod waits, for at most this long, until the plugin allows it (see [`WaitingPods`]); after that
    /// it is rejected. The limit is 15 minutes.
    Wait(Duration),
    /// The pod is rejected.
    Reject(Rejection),
}

/// Effect of an event on an unschedulable pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hint {
    Skip,
    /// The pod is retried after its backoff.
    AfterBackoff,
    /// The pod is retried without backoff.
    Immediately,
}

/// A pod in the scheduling queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The time it was added to the queue or returned to it.
    pub since: coracle_base::Timestamp,
}

/// Sort key of a queued pod: highest rank first, then earliest `since`, then smallest group, then insertion
/// order. Unlike the comparison function of kube-scheduler's QueueSort, a key is a total order whatever a
/// plugin returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueKey {
    /// Priority; higher is scheduled first.
    pub rank: i64,
    /// Time since which the pod counts as waiting.
    pub since: coracle_base::Timestamp,
    /// Pods of one group are scheduled one after the other.
    pub group: u64,
}

/// Order of the active queue. All profiles share one, as kube-scheduler's must use the same QueueSort
/// plugin.
pub trait QueueSort: Send + Sync {
    /// Its name in kube-scheduler's configuration.
    fn name(&self) -> &'static str;

    /// The sort key of a pod.
    fn key(&self, queued: &QueuedPod<'_>) -> QueueKey;
}

/// A scheduling plugin. Every extension point has a default that does nothing.
///
/// All extension points are called in the single scheduling task and block it, so they must not wait; only
/// the futures in [`PreBind`] and [`Binding`] may.
pub trait Plugin: Send + Sync {
    /// Its name in kube-scheduler's configuration.
    fn name(&self) -> &'static str;

    /// PreEnqueue: true if the pod may enter the active queue. Called again when the pod changes, and when
    /// [`Plugin::hint`] returns true for an event.
    fn pre_enqueue(&self, _pod: &Pod) -> bool {
        true
    }

    /// Builds the indexes of the cluster state that `pre_filter` and `pre_score` read.
    fn prepare(&self, _state: &mut ClusterState, _pod: &Pod) {}

    /// PreFilter: precomputes what the filter needs to know of the pod.
    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, _pod: &'w Arc<Pod>) -> PreFilter<'w> {
        PreFilter::Skip
    }

    /// PostFilter: tries to make an unschedulable pod schedulable; none if the plugin has no such extension
    /// point.
    fn post_filter(&self, _attempt: &mut Attempt<'_>, _diagnosis: &Diagnosis) -> Option<PostFilter> {
        None
    }

    /// PreScore: precomputes what the scores need to know of the pod and the feasible nodes.
    fn pre_score<'w>(
        &'w self,
        _state: &'w ClusterState,
        _pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        PreScore::Skip
    }

    /// Reserve: records plugin state for a pod on its chosen node. Its resource requests are counted
    /// already.
    ///
    /// # Errors
    /// If the reservation fails. The reservations of other plugins are undone.
    fn reserve(&self, _state: &mut ClusterState, _pod: &Arc<Pod>, _node: &str) -> Result<(), Rejection> {
        Ok(())
    }

    /// Undoes [`Plugin::reserve`]. Also called for plugins whose `reserve` failed or was not called.
    fn unreserve(&self, _state: &mut ClusterState, _pod: &Pod, _node: &str) {}

    /// Permit: allows, delays or rejects the binding of a pod.
    fn permit(&self, _state: &ClusterState, _pod: &Arc<Pod>, _node: &str) -> Permit {
        Permit::Allow
    }

    /// PreBind: work to do before a pod is bound; none if there is none. The call itself corresponds to
    /// kube-scheduler's `PreBindPreFlight`: it only decides whether there is work and has no side effects.
    fn pre_bind(&self, _state: &ClusterState, _pod: &Arc<Pod>, _node: &str) -> Option<PreBind> {
        None
    }

    /// Bind: binds a pod; none if another plugin has to.
    fn bind(&self, _state: &ClusterState, _pod: &Arc<Pod>, _node: &str) -> Option<Binding> {
        None
    }

    /// PostBind: called after a pod was bound.
    fn post_bind(&self, _state: &mut ClusterState, _pod: &Pod, _node: &str) {}

    /// True if events of this type can make pods schedulable that this plugin rejected.
    fn wants(&self, _about: About) -> bool {
        false
    }

    /// QueueingHint: true if the event may have made a pod schedulable that this plugin rejected.
    fn hint(&self, _state: &ClusterState, _pod: &Pod, _event: &ClusterEvent) -> bool {
        false
    }
}

/// Scales non-negative scores to the range from zero to [`MAX_NODE_SCORE`], in proportion to the largest.
pub(crate) fn normalize_by_largest(scores: &mut [i64], smaller_is_better: bool) {
    let largest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if largest == 0 { 0 } else { MAX_NODE_SCORE * *score / largest };
        *score = if smaller_is_better { MAX_NODE_SCORE - share } else { share };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_normalized_by_the_largest() {
        for (scores, smaller_is_better, expected) in [
            ([1, 2, 3, 4], false, [25, 50, 75, 100]),
            ([1, 2, 3, 4], true, [75, 50, 25, 0]),
            ([1000, 10, 20, 30], false, [100, 1, 2, 3]),
            ([0, 0, 0, 0], false, [0; 4]),
            ([0, 0, 0, 0], true, [100; 4]),
        ] {
            let mut normalized = scores;
            normalize_by_largest(&mut normalized, smaller_is_better);
            assert_eq!(normalized, expected, "{scores:?}");
        }
    }
}
