//! Where rules of scheduling come in, at the points upstream's framework has.
//!
//! A rule is a [`Plugin`]. What it has to know of a pod it works out once, in `pre_filter` and `pre_score`;
//! what comes out of those is asked about node after node, and allocates nothing. Programs that embed the
//! scheduler bring their own in a [`Registry`](crate::Registry).

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
pub use crate::cycle::Attempt;
use crate::view::Pod;
use crate::world::World;

/// The most a plugin gives a node.
pub const MAX_NODE_SCORE: i64 = 100;

/// Says of each node whether it is for the pod it was made for.
pub trait NodeFilter<'w> {
    /// Whether this one is.
    ///
    /// # Errors
    /// Why it is not.
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection>;

    /// The same as if another pod were on the node, which is the only one that is asked about from then on.
    fn add_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// The same as if a pod were gone from the node, which is the only one that is asked about from then on.
    fn remove_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// Another one, to try things out with.
    fn boxed(&self) -> Filter<'w>;
}

/// A filter of any plugin.
pub type Filter<'w> = Box<dyn NodeFilter<'w> + 'w>;

/// Says how good each node is for the pod it was made for.
pub trait NodeScore {
    /// How good this one is. What can go wrong has to go wrong before, in [`Plugin::pre_score`].
    fn score(&self, info: &NodeInfo) -> i64;

    /// Brings the scores of all nodes between zero and [`MAX_NODE_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// What a plugin says of a pod before any node is looked at.
pub enum PreFilter<'w> {
    /// It does not care.
    Skip,
    /// No node is for it.
    Reject(Rejection),
    /// Every node is to be asked about.
    Filter(Filter<'w>),
    /// Only these are.
    Only(Vec<NodeIndex>, Filter<'w>),
}

/// What a plugin says of a pod before the nodes that are for it are compared.
pub enum PreScore<'w> {
    /// It does not care.
    Skip,
    /// Each node is to be asked about.
    Score(Box<dyn NodeScore + 'w>),
    /// Something went wrong. The pod is tried again after a while.
    Error(String),
}

/// What came of trying to make room for a pod that no node is for.
#[derive(Debug, Default)]
pub struct PostFilter {
    /// What to tell people.
    pub message: String,
    /// Which node the pod is promised. Other plugins are asked until one promises a node.
    pub nomination: Nomination,
    /// Who has to go.
    pub victims: Vec<Arc<Pod>>,
}

/// What becomes of the node a pod is promised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// What it was.
    #[default]
    Keep,
    /// None any more.
    Clear,
    /// This one.
    Node(Box<str>),
}

/// The last word on whether a pod goes to its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It goes.
    Allow,
    /// It waits, for at most so long, until the plugin allows it (see [`WaitingPods`]); then it is refused.
    /// Nobody waits longer than fifteen minutes.
    Wait(Duration),
    /// It does not.
    Reject(Rejection),
}

/// Whether an event may have made a pod schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hint {
    Skip,
    /// It is tried again when it has waited long enough.
    AfterBackoff,
    /// It is tried again at once.
    Immediately,
}

/// A pod that waits to be scheduled.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// When it was added, or came back.
    pub since: coracle_base::Timestamp,
}

/// Whose turn it is: the highest rank first, then who has waited longest, then the smallest group, then who was
/// added first. Unlike a comparison of two pods, which upstream asks for, this is an order whatever a plugin
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueKey {
    /// How important it is.
    pub rank: i64,
    /// Since when it counts as waiting.
    pub since: coracle_base::Timestamp,
    /// Pods of one group come one after the other.
    pub group: u64,
}

/// In which order pods are scheduled. There is one for all profiles, as upstream's have to agree on one.
pub trait QueueSort: Send + Sync {
    /// Its name in upstream's configuration.
    fn name(&self) -> &'static str;

    /// Whose turn it is.
    fn key(&self, queued: &QueuedPod<'_>) -> QueueKey;
}

/// A rule of scheduling. Every point has a default that does nothing.
///
/// All points but what [`PreBind`] and [`Binding`] hold are called in the one task that schedules, which waits for
/// them: they must not wait for anything.
pub trait Plugin: Send + Sync {
    /// Its name in upstream's configuration.
    fn name(&self) -> &'static str;

    /// Whether a pod may be looked at at all. Asked again when the pod changes, and when [`Plugin::hint`] says that
    /// an event may have changed the answer.
    fn pre_enqueue(&self, _pod: &Pod) -> bool {
        true
    }

    /// Sees to it that what `pre_filter` and `pre_score` need to know is there.
    fn prepare(&self, _world: &mut World, _pod: &Pod) {}

    /// What has to be known of a pod before nodes are looked at.
    fn pre_filter<'w>(&'w self, _world: &'w World, _pod: &'w Arc<Pod>) -> PreFilter<'w> {
        PreFilter::Skip
    }

    /// Tries to make room for a pod that no node is for; none if that is not its business.
    fn post_filter(&self, _attempt: &mut Attempt<'_>, _diagnosis: &Diagnosis) -> Option<PostFilter> {
        None
    }

    /// What has to be known before nodes are compared that are for a pod.
    fn pre_score<'w>(&'w self, _world: &'w World, _pod: &'w Arc<Pod>, _nodes: &[NodeIndex]) -> PreScore<'w> {
        PreScore::Skip
    }

    /// Notes that a pod will be on a node, apart from that it takes part of it.
    ///
    /// # Errors
    /// If it may not. What others have noted is taken back then.
    fn reserve(&self, _world: &mut World, _pod: &Arc<Pod>, _node: &str) -> Result<(), Rejection> {
        Ok(())
    }

    /// Takes that back. Also called where [`Plugin::reserve`] was not, or failed.
    fn unreserve(&self, _world: &mut World, _pod: &Pod, _node: &str) {}

    /// Has the last word on whether a pod goes to a node.
    fn permit(&self, _world: &World, _pod: &Arc<Pod>, _node: &str) -> Permit {
        Permit::Allow
    }

    /// What has to be done before a pod can be bound; none if nothing has. Asking for it is upstream's
    /// `PreBindPreFlight`: it says whether there is anything to be done, and does nothing.
    fn pre_bind(&self, _world: &World, _pod: &Arc<Pod>, _node: &str) -> Option<PreBind> {
        None
    }

    /// Binds a pod; none if that is not its business.
    fn bind(&self, _world: &World, _pod: &Arc<Pod>, _node: &str) -> Option<Binding> {
        None
    }

    /// Is told that a pod was bound.
    fn post_bind(&self, _world: &mut World, _pod: &Pod, _node: &str) {}

    /// Whether events of a sort can matter to pods that this plugin refused.
    fn wants(&self, _about: About) -> bool {
        false
    }

    /// Whether an event may have made a pod schedulable that this plugin refused.
    fn hint(&self, _world: &World, _pod: &Pod, _event: &ClusterEvent) -> bool {
        false
    }
}

/// Scores from nothing up to whatever, brought between zero and [`MAX_NODE_SCORE`].
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
    fn scores_are_brought_into_range() {
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
