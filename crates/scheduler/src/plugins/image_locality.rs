//! ImageLocality: prefers nodes that have a pod's images already. Images that few nodes have count less;
//! otherwise all pods with the image would be placed on those nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore, Plugin, PreScore};
use crate::view::Pod;

/// Total image size below which the score is zero, and size per container above which it does not increase.
const MIN_THRESHOLD: i64 = 23 * 1024 * 1024;
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * 1024 * 1024;

pub(crate) struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn pre_score<'w>(
        &'w self,
        state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        _nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        let images: Vec<_> = pod.images.iter().filter_map(|image| state.cache.image(image)).collect();
        // Every node would get the lowest score.
        if images.is_empty() {
            return PreScore::Skip;
        }
        let most = MAX_CONTAINER_THRESHOLD * i64::try_from(pod.containers).unwrap_or(1);
        PreScore::Score(Box::new(Local { images, nodes: state.cache.cached_order().len(), most }))
    }
}

struct Local<'w> {
    images: Vec<&'w HashMap<NodeIndex, i64>>,
    /// Number of nodes in the cluster.
    nodes: usize,
    most: i64,
}

impl NodeScore for Local<'_> {
    fn score(&self, info: &NodeInfo) -> i64 {
        let scaled = |image: &&HashMap<NodeIndex, i64>| {
            let spread = image.len() as f64 / self.nodes as f64;
            #[expect(clippy::cast_possible_truncation, reason = "no image is that large")]
            let bytes = image.get(&info.index).map(|bytes| (*bytes as f64 * spread) as i64);
            bytes
        };
        let sum: i64 = self.images.iter().filter_map(scaled).sum();
        MAX_NODE_SCORE * (sum.clamp(MIN_THRESHOLD, self.most.max(MIN_THRESHOLD)) - MIN_THRESHOLD)
            / (self.most - MIN_THRESHOLD).max(1)
    }
}
