//! Order in which nodes are examined: round-robin over zones, so that the first feasible nodes are not all
//! in one zone.

use std::collections::BTreeMap;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::view::Node;
use crate::view::node::{REGION, ZONE};

/// All existing nodes, round-robin over zones.
pub(super) fn round_robin(nodes: &[NodeInfo]) -> Vec<NodeIndex> {
    let mut zones: BTreeMap<(&str, &str), Vec<NodeIndex>> = BTreeMap::new();
    for info in nodes {
        if let Some(node) = &info.node {
            zones.entry(zone_of(node)).or_default().push(info.index);
        }
    }
    let longest = zones.values().map(Vec::len).max().unwrap_or(0);
    let round = |round: usize| zones.values().filter_map(move |zone| zone.get(round).copied());
    (0..longest).flat_map(round).collect()
}

fn zone_of(node: &Node) -> (&str, &str) {
    (node.labels.get(REGION).unwrap_or(""), node.labels.get(ZONE).unwrap_or(""))
}

/// True if the zone or region of a node changed.
pub(super) fn zone_changed(old: Option<&Node>, new: Option<&Node>) -> bool {
    old.map(zone_of) != new.map(zone_of)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn nodes_are_ordered_round_robin_over_zones() {
        let zones = ["a", "a", "a", "b", "c", "c"];
        let node = |(slot, zone): (usize, &&str)| {
            let node = Node { labels: [(ZONE, *zone)].into_iter().collect(), ..Node::default() };
            NodeInfo::at(slot, Arc::new(node))
        };
        let mut nodes: Vec<_> = zones.iter().enumerate().map(node).collect();
        nodes.push(NodeInfo::new(NodeIndex::new(6)));
        let order: Vec<_> = round_robin(&nodes).into_iter().map(|index| zones[index.slot()]).collect();
        assert_eq!(order, ["a", "b", "c", "a", "c", "a"]);
    }
}
