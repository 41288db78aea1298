//! NodeResourcesFit: a node must have enough free resources, and scores higher the more remain free
//! (LeastAllocated).

use std::borrow::Cow;
use std::sync::Arc;

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{
    About, ClusterEvent, Code, Filter, MAX_NODE_SCORE, NodeFilter, NodeScore, Plugin, PreFilter, PreScore,
    Rejection,
};
use crate::view::{Node, Pod, Resources};

pub(crate) struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        PreFilter::Filter(Box::new(Fits { wanted: &pod.requests }))
    }

    fn pre_score<'w>(
        &'w self,
        _state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        PreScore::Score(Box::new(LeastAllocated { wanted: &pod.assumed_requests }))
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::PodGone | About::PodChanged | About::PendingPod)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::PodGone(gone) => gone.occupies_node(),
            ClusterEvent::PodChanged { old, new, changes } => {
                changes.scaled_down && freed_some(&pod.requests, &old.requests, &new.requests)
            }
            ClusterEvent::PendingChanged { new, changes, .. } => {
                changes.scaled_down && new.metadata.uid == pod.metadata.uid
            }
            ClusterEvent::NodeAdded(node) => fits_alone(pod, node),
            ClusterEvent::NodeChanged { old, new, changes } => {
                changes.allocatable
                    && fits_alone(pod, new)
                    && offers_more(&pod.requests, &old.allocatable, &new.allocatable)
            }
            _ => false,
        }
    }
}

/// True if a pod fits on a node without other pods.
fn fits_alone(pod: &Pod, node: &Arc<Node>) -> bool {
    Fits { wanted: &pod.requests }.filter(&NodeInfo::alone(Arc::clone(node))).is_ok()
}

/// True if the use of a requested resource decreased.
fn freed_some(wanted: &Resources, before: &Resources, now: &Resources) -> bool {
    (wanted.milli_cpu > 0 && now.milli_cpu < before.milli_cpu)
        || (wanted.memory > 0 && now.memory < before.memory)
        || (wanted.ephemeral_storage > 0 && now.ephemeral_storage < before.ephemeral_storage)
        || (wanted.scalars.iter()).any(|(name, amount)| *amount > 0 && now.scalar(name) < before.scalar(name))
}

/// True if a node has more of a requested resource, or allows more pods.
fn offers_more(wanted: &Resources, before: &Resources, now: &Resources) -> bool {
    now.pods > before.pods || freed_some(wanted, now, before)
}

#[derive(Clone)]
struct Fits<'w> {
    wanted: &'w Resources,
}

/// Resources of which a node has too little, collected while it is checked.
#[derive(Default)]
struct Shortage {
    rejection: Option<Rejection>,
}

impl Shortage {
    fn of(&mut self, wanted: i64, offered: i64, taken: i64, reason: impl FnOnce() -> Cow<'static, str>) {
        if wanted <= 0 || wanted <= offered - taken {
            return;
        }
        // Preemption cannot help if the node does not have that much at all.
        let resolvable = wanted <= offered;
        self.note(reason(), resolvable);
    }

    fn note(&mut self, reason: Cow<'static, str>, resolvable: bool) {
        self.rejection = Some(match self.rejection.take() {
            None if resolvable => Rejection::resolvable(reason),
            None => Rejection::unresolvable(reason),
            Some(existing) if resolvable => existing.and(reason),
            Some(existing) => Rejection { code: Code::UnschedulableAndUnresolvable, ..existing.and(reason) },
        });
    }
}

impl<'w> NodeFilter<'w> for Fits<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let (wanted, offered, taken) = (self.wanted, info.allocatable(), &info.requested);
        let mut shortage = Shortage::default();
        if i64::try_from(info.pods.len()).unwrap_or(i64::MAX) >= offered.pods {
            shortage.note("Too many pods".into(), true);
        }
        shortage.of(wanted.milli_cpu, offered.milli_cpu, taken.milli_cpu, || "Insufficient cpu".into());
        shortage.of(wanted.memory, offered.memory, taken.memory, || "Insufficient memory".into());
        shortage.of(wanted.ephemeral_storage, offered.ephemeral_storage, taken.ephemeral_storage, || {
            "Insufficient ephemeral-storage".into()
        });
        for (name, amount) in &wanted.scalars {
            shortage.of(*amount, offered.scalar(name), taken.scalar(name), || {
                format!("Insufficient {name}").into()
            });
        }
        shortage.rejection.map_or(Ok(()), Err)
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}

struct LeastAllocated<'w> {
    wanted: &'w Resources,
}

impl NodeScore for LeastAllocated<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let (offered, taken) = (info.allocatable(), &info.assumed_requested);
        let shares = [
            share_left(offered.milli_cpu, taken.milli_cpu + self.wanted.milli_cpu),
            share_left(offered.memory, taken.memory + self.wanted.memory),
        ];
        let existing = shares.iter().flatten();
        let count = existing.clone().count();
        existing.sum::<i64>() / i64::try_from(count.max(1)).unwrap_or(1)
    }
}

/// The free fraction of a resource, scaled to a score; none if the node has none of it.
fn share_left(offered: i64, taken: i64) -> Option<i64> {
    (offered != 0).then(|| if taken > offered { 0 } else { (offered - taken) * MAX_NODE_SCORE / offered })
}
