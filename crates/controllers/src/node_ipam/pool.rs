//! Allocation of CIDR blocks to nodes.

use std::collections::HashMap;

use coracle_runtime::{ClusterId, ObjectKey};

use super::metrics::{CidrMetrics, RangeMetrics};
use crate::cidr::Cidr;

/// Maximum difference between the mask lengths of node and range: more than 65536 blocks are too many to track
/// (`clusterSubnetMaxDiff` in Kubernetes).
const MAX_BITS: u8 = 16;

/// Error of invalid ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeCidrError {
    /// There must be one or two ranges, of different IP families.
    #[error("node CIDR ranges must be one or two, with at most one per IP family")]
    Families,
    /// The block of a node is larger than the range.
    #[error("range {range} is smaller than the mask size {prefix} of its nodes")]
    TooLarge {
        /// The range.
        range: Cidr,
        /// Mask size of nodes.
        prefix: u8,
    },
    /// The range has too many blocks.
    #[error(
        "range {range} has too many blocks: the mask size {prefix} of its nodes exceeds its own by more than 16"
    )]
    TooMany {
        /// The range.
        range: Cidr,
        /// Mask size of nodes.
        prefix: u8,
    },
}

/// The ranges from which nodes get their pod CIDRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCidrs {
    /// Ranges and their mask sizes of nodes.
    ranges: Vec<(Cidr, u8)>,
    /// Service ranges, which nodes must not use.
    excluded: Vec<Cidr>,
}

impl NodeCidrs {
    /// Creates the allocation: every node gets one block of each range, with the mask size of its IP family.
    ///
    /// # Errors
    /// If the ranges or mask sizes are invalid.
    pub fn new(ranges: Vec<Cidr>, mask_ipv4: u8, mask_ipv6: u8) -> Result<Self, NodeCidrError> {
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|range| (range, if range.is_ipv4() { mask_ipv4 } else { mask_ipv6 }))
            .collect();
        let alike = ranges.len() == 2 && ranges[0].0.is_ipv4() == ranges[1].0.is_ipv4();
        if ranges.is_empty() || ranges.len() > 2 || alike {
            return Err(NodeCidrError::Families);
        }
        for (range, prefix) in ranges.iter().copied() {
            let longest = if range.is_ipv4() { 32 } else { 128 };
            if range.prefix() > prefix || prefix > longest {
                return Err(NodeCidrError::TooLarge { range, prefix });
            }
            if prefix - range.prefix() > MAX_BITS {
                return Err(NodeCidrError::TooMany { range, prefix });
            }
        }
        Ok(Self { ranges, excluded: Vec::new() })
    }

    /// Excludes ranges from the allocation.
    #[must_use]
    pub fn without(self, excluded: Vec<Cidr>) -> Self {
        Self { excluded, ..self }
    }
}

/// No block is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")]
pub(super) struct Exhausted;

/// Allocated blocks of all clusters with nodes.
#[derive(Debug)]
pub(super) struct Pool {
    cidrs: NodeCidrs,
    clusters: HashMap<ClusterId, ClusterBlocks>,
    metrics: CidrMetrics,
}

/// Allocated blocks of one cluster.
#[derive(Debug)]
struct ClusterBlocks {
    ranges: Vec<Blocks>,
    held: HashMap<ObjectKey, Vec<Cidr>>,
}

/// Blocks of one range, with the number of nodes that use each: a user may set the same block on several nodes.
#[derive(Debug)]
struct Blocks {
    range: Cidr,
    prefix: u8,
    used: HashMap<u64, usize>,
    next: u64,
    metrics: RangeMetrics,
}

impl Pool {
    pub(super) fn new(cidrs: NodeCidrs, metrics: CidrMetrics) -> Self {
        Self { cidrs, clusters: HashMap::new(), metrics }
    }

    /// For each range, the number of used blocks in the cluster that uses most, and the number of all blocks.
    pub(super) fn usage(&self) -> impl Iterator<Item = (Cidr, usize, u64)> {
        self.cidrs.ranges.iter().enumerate().map(|(index, (range, prefix))| {
            let used = self
                .clusters
                .values()
                .filter_map(|cluster_blocks| Some(cluster_blocks.ranges.get(index)?.used.len()));
            (*range, used.max().unwrap_or_default(), range.blocks(*prefix))
        })
    }

    /// True if the nodes of the cluster are loaded.
    pub(super) fn contains(&self, cluster: &ClusterId) -> bool {
        self.clusters.contains_key(cluster)
    }

    /// Records the blocks of a node. True if blocks were released.
    pub(super) fn hold(&mut self, node: &ObjectKey, cidrs: Vec<Cidr>) -> bool {
        let cluster_blocks = self.cluster_blocks(node.cluster());
        let freed = cluster_blocks.hold(node, cidrs);
        if freed && cluster_blocks.held.is_empty() {
            self.clusters.remove(node.cluster());
        }
        freed
    }

    /// Returns the blocks already allocated to a node, or allocates one of each range.
    pub(super) fn allocate(&mut self, node: &ObjectKey) -> Result<Vec<Cidr>, Exhausted> {
        let cluster_blocks = self.cluster_blocks(node.cluster());
        if let Some(held) = cluster_blocks.held.get(node) {
            return Ok(held.clone());
        }
        let chosen: Option<Vec<Cidr>> = cluster_blocks.ranges.iter_mut().map(Blocks::next_free).collect();
        let chosen = chosen.ok_or(Exhausted)?;
        cluster_blocks.hold(node, chosen.clone());
        Ok(chosen)
    }

    fn cluster_blocks(&mut self, cluster: &ClusterId) -> &mut ClusterBlocks {
        let Self { cidrs, clusters, metrics } = self;
        clusters.entry(cluster.clone()).or_insert_with(|| {
            let create = |(range, prefix): &(Cidr, u8)| {
                let (range, prefix) = (*range, *prefix);
                let metrics = metrics.of(&range);
                let mut blocks = Blocks { range, prefix, used: HashMap::new(), next: 0, metrics };
                cidrs.excluded.iter().for_each(|cidr| blocks.occupy(cidr));
                blocks
            };
            ClusterBlocks { ranges: cidrs.ranges.iter().map(create).collect(), held: HashMap::new() }
        })
    }
}

impl ClusterBlocks {
    fn hold(&mut self, node: &ObjectKey, cidrs: Vec<Cidr>) -> bool {
        if self.held.get(node).map_or(&[][..], Vec::as_slice) == cidrs {
            return false;
        }
        let before = self.held.remove(node).unwrap_or_default();
        for blocks in &mut self.ranges {
            before.iter().for_each(|cidr| blocks.release(cidr));
            cidrs.iter().for_each(|cidr| blocks.occupy(cidr));
        }
        let freed = before.iter().any(|cidr| !cidrs.contains(cidr));
        if !cidrs.is_empty() {
            self.held.insert(node.clone(), cidrs);
        }
        freed
    }
}

impl Blocks {
    fn occupy(&mut self, cidr: &Cidr) {
        for index in self.range.indexes_of(self.prefix, cidr).into_iter().flatten() {
            let count = self.used.entry(index).or_default();
            *count += 1;
            if *count == 1 {
                self.metrics.allocations.inc();
            }
        }
    }

    fn release(&mut self, cidr: &Cidr) {
        for index in self.range.indexes_of(self.prefix, cidr).into_iter().flatten() {
            if let Some(count) = self.used.get_mut(&index) {
                *count -= 1;
                if *count == 0 {
                    self.used.remove(&index);
                    self.metrics.releases.inc();
                }
            }
        }
    }

    /// The next free block after the last allocated one, so that released blocks are reused as late as possible.
    fn next_free(&mut self) -> Option<Cidr> {
        let count = self.range.blocks(self.prefix);
        let at = |offset| (self.next + offset) % count;
        let tries = (0..count).find(|offset| !self.used.contains_key(&at(*offset)))?;
        let index = at(tries);
        self.metrics.tries.observe(tries as f64);
        self.next = (index + 1) % count;
        Some(self.range.block(self.prefix, index))
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::Metrics;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn node(name: &str) -> ObjectKey {
        ObjectKey::cluster_wide(ClusterId::default(), name)
    }

    fn pool(ranges: &[&str], excluded: &[&str]) -> Pool {
        let ranges = ranges.iter().map(|range| cidr(range)).collect();
        let excluded = excluded.iter().map(|range| cidr(range)).collect();
        let cidrs = NodeCidrs::new(ranges, 24, 64).unwrap().without(excluded);
        Pool::new(cidrs, CidrMetrics::new(&Metrics::default()))
    }

    fn allocated(pool: &mut Pool, name: &str) -> Result<Vec<String>, Exhausted> {
        let cidrs = pool.allocate(&node(name))?;
        Ok(cidrs.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn node_gets_a_block_of_each_range() {
        let mut pool = pool(&["10.1.0.0/16", "fd00::/56"], &[]);
        assert_eq!(allocated(&mut pool, "a").unwrap(), ["10.1.0.0/24", "fd00::/64"]);
        assert_eq!(allocated(&mut pool, "b").unwrap(), ["10.1.1.0/24", "fd00:0:0:1::/64"]);
        assert_eq!(allocated(&mut pool, "a").unwrap(), ["10.1.0.0/24", "fd00::/64"], "once");
        let other = ObjectKey::cluster_wide(ClusterId::new("other"), "a");
        assert_eq!(
            pool.allocate(&other).unwrap()[0].to_string(),
            "10.1.0.0/24",
            "clusters have separate blocks"
        );
    }

    #[test]
    fn used_blocks_are_not_allocated() {
        let mut pool = pool(&["10.1.0.0/22"], &["10.1.1.0/24"]);
        pool.hold(&node("a"), vec![cidr("10.1.0.0/25")]);
        pool.hold(&node("elsewhere"), vec![cidr("10.9.0.0/24")]);
        assert_eq!(allocated(&mut pool, "b").unwrap(), ["10.1.2.0/24"]);
        assert_eq!(allocated(&mut pool, "c").unwrap(), ["10.1.3.0/24"]);
        assert_eq!(allocated(&mut pool, "d"), Err(Exhausted));
        assert!(!pool.hold(&node("b"), vec![cidr("10.1.2.0/24")]), "its blocks are unchanged");
        assert!(pool.hold(&node("b"), Vec::new()), "its blocks are released");
        assert_eq!(allocated(&mut pool, "d").unwrap(), ["10.1.2.0/24"]);
    }

    #[test]
    fn allocations_and_releases_are_counted() {
        let metrics = Metrics::default();
        let cidrs = NodeCidrs::new(vec![cidr("10.1.0.0/22")], 24, 64).unwrap();
        let mut pool = Pool::new(cidrs, CidrMetrics::new(&metrics));
        let blocks = pool.allocate(&node("a")).unwrap();
        assert!(!pool.hold(&node("a"), blocks), "already allocated");
        pool.hold(&node("b"), vec![cidr("10.1.1.0/24")]);
        pool.allocate(&node("c")).unwrap();
        pool.hold(&node("b"), Vec::new());
        assert_eq!(pool.usage().collect::<Vec<_>>(), [(cidr("10.1.0.0/22"), 2, 4)]);
        let text = metrics.text();
        for line in [
            r#"node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR="10.1.0.0/22"} 3"#,
            r#"node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR="10.1.0.0/22"} 1"#,
            r#"node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR="10.1.0.0/22"} 2"#,
            r#"node_ipam_controller_cidrset_allocation_tries_per_request_sum{clusterCIDR="10.1.0.0/22"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn shared_block_is_released_by_its_last_node() {
        let mut pool = pool(&["10.1.0.0/24"], &[]);
        for name in ["a", "b"] {
            pool.hold(&node(name), vec![cidr("10.1.0.0/24")]);
        }
        pool.hold(&node("a"), Vec::new());
        assert_eq!(allocated(&mut pool, "c"), Err(Exhausted));
        pool.hold(&node("b"), Vec::new());
        assert!(!pool.contains(&ClusterId::default()), "a cluster without nodes is removed");
        assert_eq!(allocated(&mut pool, "c").unwrap(), ["10.1.0.0/24"]);
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        let new = |ranges: &[&str], v4, v6| {
            NodeCidrs::new(ranges.iter().map(|range| cidr(range)).collect(), v4, v6).map(drop)
        };
        assert_eq!(new(&[], 24, 64), Err(NodeCidrError::Families));
        assert_eq!(new(&["10.0.0.0/16", "10.1.0.0/16"], 24, 64), Err(NodeCidrError::Families));
        let (range, prefix) = (cidr("10.0.0.0/25"), 24);
        assert_eq!(new(&["10.0.0.0/25"], 24, 64), Err(NodeCidrError::TooLarge { range, prefix }));
        let (range, prefix) = (cidr("fd00::/40"), 64);
        assert_eq!(new(&["fd00::/40"], 24, 64), Err(NodeCidrError::TooMany { range, prefix }));
        assert_eq!(new(&["10.0.0.0/16", "fd00::/48"], 24, 64), Ok(()));
    }
}
