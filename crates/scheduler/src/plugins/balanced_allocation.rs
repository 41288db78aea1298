//! NodeResourcesBalancedAllocation: prefers nodes on which the pod balances CPU and memory utilization.

use std::sync::Arc;

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore, Plugin, PreScore};
use crate::view::{Pod, Resources};

pub(crate) struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn pre_score<'w>(
        &'w self,
        _state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        // A pod without requests does not change the balance, so all such pods would get the same node.
        if pod.requests.milli_cpu == 0 && pod.requests.memory == 0 {
            return PreScore::Skip;
        }
        PreScore::Score(Box::new(Balance { wanted: &pod.requests }))
    }
}

struct Balance<'w> {
    wanted: &'w Resources,
}

impl NodeScore for Balance<'_> {
    /// Change of the balance caused by the pod, scaled around `MAX_NODE_SCORE / 2`.
    fn score(&self, info: &NodeInfo) -> i64 {
        let (offered, taken) = (info.allocatable(), &info.requested);
        let balance = |cpu: i64, memory: i64| {
            let (cpu, memory) = (share(cpu, offered.milli_cpu), share(memory, offered.memory));
            let deviation = match (cpu, memory) {
                (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
                _ => 0.0,
            };
            #[expect(clippy::cast_possible_truncation, reason = "between zero and a hundred")]
            let score = ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64;
            score
        };
        let with = balance(taken.milli_cpu + self.wanted.milli_cpu, taken.memory + self.wanted.memory);
        let without = balance(taken.milli_cpu, taken.memory);
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + with - without) / 2
    }
}

/// Utilized fraction of a resource; none if the node has none of it.
fn share(taken: i64, offered: i64) -> Option<f64> {
    (offered != 0).then(|| (taken as f64 / offered as f64).min(1.0))
}
