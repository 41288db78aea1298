//! TaintToleration: nodes reject pods that do not tolerate their taints.

use std::sync::Arc;

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{
    About, ClusterEvent, Filter, NodeFilter, NodeScore, Plugin, PreFilter, PreScore, Rejection,
    normalize_by_largest,
};
use crate::view::taint::{Effect, has_untolerated};
use crate::view::{Pod, Taint, Toleration};

const REASON: &str = "node(s) had untolerated taint(s)";

pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        PreFilter::Filter(Box::new(Tolerated { tolerations: &pod.tolerations }))
    }

    fn pre_score<'w>(
        &'w self,
        state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        let unwelcoming = |node: &NodeIndex| {
            let node = state.cache.info(*node).node.as_ref();
            node.is_some_and(|node| node.taints.iter().any(is_preference))
        };
        // All nodes would get the same score.
        if !nodes.iter().any(unwelcoming) {
            return PreScore::Skip;
        }
        let minding = |toleration: &&Toleration| {
            toleration.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule)
        };
        let tolerations = pod.tolerations.iter().filter(minding).collect();
        PreScore::Score(Box::new(FewestTaints { tolerations }))
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::PendingPod)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        if let ClusterEvent::PendingChanged { new, changes, .. } = event {
            return changes.tolerations && new.metadata.uid == pod.metadata.uid;
        }
        let Some((old, new)) = event.node() else { return false };
        let is_kept_away = |taints: &[Taint]| has_untolerated(taints, &pod.tolerations);
        !is_kept_away(&new.taints) && old.is_none_or(|old| is_kept_away(&old.taints))
    }
}

fn is_preference(taint: &Taint) -> bool {
    taint.effect == Effect::PreferNoSchedule
}

#[derive(Clone)]
struct Tolerated<'w> {
    tolerations: &'w [Toleration],
}

impl<'w> NodeFilter<'w> for Tolerated<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        match &info.node {
            Some(node) if has_untolerated(&node.taints, self.tolerations) => {
                Err(Rejection::unresolvable(REASON))
            }
            _ => Ok(()),
        }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}

struct FewestTaints<'w> {
    tolerations: Vec<&'w Toleration>,
}

impl NodeScore for FewestTaints<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let taints = info.node.iter().flat_map(|node| &node.taints).filter(|taint| is_preference(taint));
        let minded =
            taints.filter(|taint| !self.tolerations.iter().any(|toleration| toleration.tolerates(taint)));
        i64::try_from(minded.count()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_largest(scores, true);
    }
}
