//! Where rules of scheduling come in, at the points upstream's framework has.
//!
//! A rule is a [`Plugin`]. What it has to know of a pod it works out once, in `pre_filter` and `pre_score`;
//! what comes out of those is asked about node after node, and allocates nothing.

pub(crate) mod event;
pub(crate) mod profile;
pub(crate) mod status;

use std::pin::Pin;
use std::sync::Arc;

pub(crate) use event::{About, ClusterEvent, PodChanges};
pub(crate) use profile::{PluginSet, Profile};
pub(crate) use status::{Diagnosis, Rejection};

use crate::cache::{NodeIndex, NodeInfo};
use crate::cycle::Attempt;
use crate::view::Pod;
use crate::world::World;

/// The most a plugin gives a node.
pub(crate) const MAX_NODE_SCORE: i64 = 100;

/// Says of each node whether it is for the pod it was made for.
pub(crate) trait NodeFilter<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection>;

    /// The same as if another pod were on the node, which is the only one that is asked about from then on.
    fn add_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// The same as if a pod were gone from the node, which is the only one that is asked about from then on.
    fn remove_pod(&mut self, _pod: &Pod, _info: &NodeInfo) {}

    /// Another one, to try things out with.
    fn boxed(&self) -> Filter<'w>;
}

/// A filter of any plugin.
pub(crate) type Filter<'w> = Box<dyn NodeFilter<'w> + 'w>;

/// Says how good each node is for the pod it was made for.
pub(crate) trait NodeScore {
    fn score(&self, info: &NodeInfo) -> i64;

    /// Brings the scores of all nodes between zero and [`MAX_NODE_SCORE`].
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// What a plugin says of a pod before any node is looked at.
pub(crate) enum PreFilter<'w> {
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
pub(crate) enum PreScore<'w> {
    /// It does not care.
    Skip,
    Score(Box<dyn NodeScore + 'w>),
}

/// What came of trying to make room for a pod that no node is for.
#[derive(Debug, Default)]
pub(crate) struct PostFilter {
    /// What to tell people.
    pub(crate) message: String,
    pub(crate) nomination: Nomination,
    /// Who has to go.
    pub(crate) victims: Vec<Arc<Pod>>,
}

/// What becomes of the node a pod is promised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Nomination {
    /// What it was.
    #[default]
    Keep,
    /// None any more.
    Clear,
    /// This one.
    Node(Box<str>),
}

/// Why a pod that has a place cannot be brought there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BindError(pub(crate) String);

/// What has to be done before a pod can be bound.
pub(crate) type Binding = Pin<Box<dyn Future<Output = Result<(), BindError>> + Send>>;

/// A rule of scheduling. Every point has a default that does nothing.
pub(crate) trait Plugin: Send + Sync {
    /// Its name in upstream's configuration.
    fn name(&self) -> &'static str;

    /// Whether a pod may be looked at at all.
    fn pre_enqueue(&self, _pod: &Pod) -> bool {
        true
    }

    /// Sees to it that what `pre_filter` and `pre_score` need to know is there.
    fn prepare(&self, _world: &mut World, _pod: &Pod) {}

    fn pre_filter<'w>(&'w self, _world: &'w World, _pod: &'w Arc<Pod>) -> PreFilter<'w> {
        PreFilter::Skip
    }

    /// Tries to make room for a pod that no node is for; none if that is not its business.
    fn post_filter(&self, _attempt: &mut Attempt<'_>, _diagnosis: &Diagnosis) -> Option<PostFilter> {
        None
    }

    fn pre_score<'w>(&'w self, _world: &'w World, _pod: &'w Arc<Pod>, _nodes: &[NodeIndex]) -> PreScore<'w> {
        PreScore::Skip
    }

    /// Notes that a pod will be on a node, apart from that it takes part of it.
    fn reserve(&self, _world: &mut World, _pod: &Arc<Pod>, _node: &str) -> Result<(), Rejection> {
        Ok(())
    }

    /// Takes that back.
    fn unreserve(&self, _world: &mut World, _pod: &Pod, _node: &str) {}

    /// Has the last word on whether a pod goes to a node.
    fn permit(&self, _pod: &Pod, _node: &str) -> Result<(), Rejection> {
        Ok(())
    }

    /// What has to be done before a pod can be bound; none if nothing has.
    fn pre_bind(&self, _world: &World, _pod: &Arc<Pod>, _node: &str) -> Option<Binding> {
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
