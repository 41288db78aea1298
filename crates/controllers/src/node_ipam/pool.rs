//! Which blocks of addresses nodes have, and which are free.

use std::collections::HashMap;

use coracle_runtime::{ClusterId, ObjectKey};

use super::metrics::{CidrMetrics, RangeMetrics};
use crate::cidr::Cidr;

/// How many more bits than the cluster's the blocks of nodes may have in common: more than 65536 of them are
/// too many to keep track of (`clusterSubnetMaxDiff` of upstream).
const MAX_BITS: u8 = 16;

/// What is wrong with the blocks that nodes are to have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeCidrError {
    /// There must be one or two ranges, of different families.
    #[error("there can be one range of addresses of each family")]
    Families,
    /// The block of a node is larger than the range.
    #[error("the mask of {range} must not be longer than that of its nodes, which is {prefix}")]
    TooLarge {
        /// The range.
        range: Cidr,
        /// The length of the mask of a node.
        prefix: u8,
    },
    /// There would be too many.
    #[error("the mask of the nodes of {range}, which is {prefix}, is more than 16 longer than its own")]
    TooMany {
        /// The range.
        range: Cidr,
        /// The length of the mask of a node.
        prefix: u8,
    },
}

/// From where nodes get the addresses of their pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCidrs {
    /// Each range, and how long the mask of a node is.
    ranges: Vec<(Cidr, u8)>,
    /// What services have, and no node may have.
    excluded: Vec<Cidr>,
}

impl NodeCidrs {
    /// Every node gets one block of each range, with a mask of the length for its family.
    ///
    /// # Errors
    /// If the ranges do not go together, or not with the masks.
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

    /// The same, but nodes get nothing of these.
    #[must_use]
    pub fn without(self, excluded: Vec<Cidr>) -> Self {
        Self { excluded, ..self }
    }
}

/// No block is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")]
pub(super) struct Exhausted;

/// The blocks of all clusters in which a node has one.
#[derive(Debug)]
pub(super) struct Pool {
    cidrs: NodeCidrs,
    clusters: HashMap<ClusterId, Share>,
    metrics: CidrMetrics,
}

/// The blocks of one cluster.
#[derive(Debug)]
struct Share {
    ranges: Vec<Blocks>,
    held: HashMap<ObjectKey, Vec<Cidr>>,
}

/// The blocks of one range: how many have each, for people may give one to several nodes.
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

    /// How many blocks of each range the cluster has that has most of them, and how many there are.
    pub(super) fn usage(&self) -> impl Iterator<Item = (Cidr, usize, u64)> {
        self.cidrs.ranges.iter().enumerate().map(|(index, (range, prefix))| {
            let used = self.clusters.values().filter_map(|share| Some(share.ranges.get(index)?.used.len()));
            (*range, used.max().unwrap_or_default(), range.blocks(*prefix))
        })
    }

    /// Whether anything is known of a cluster.
    pub(super) fn knows(&self, cluster: &ClusterId) -> bool {
        self.clusters.contains_key(cluster)
    }

    /// Notes which blocks a node has. Whether another one may get what it had.
    pub(super) fn hold(&mut self, node: &ObjectKey, cidrs: Vec<Cidr>) -> bool {
        let share = self.share(node.cluster());
        let freed = share.hold(node, cidrs);
        if freed && share.held.is_empty() {
            self.clusters.remove(node.cluster());
        }
        freed
    }

    /// Gives a node what it has been given before, or else a block of each range.
    pub(super) fn allocate(&mut self, node: &ObjectKey) -> Result<Vec<Cidr>, Exhausted> {
        let share = self.share(node.cluster());
        if let Some(held) = share.held.get(node) {
            return Ok(held.clone());
        }
        let chosen: Option<Vec<Cidr>> = share.ranges.iter_mut().map(Blocks::next_free).collect();
        let chosen = chosen.ok_or(Exhausted)?;
        share.hold(node, chosen.clone());
        Ok(chosen)
    }

    fn share(&mut self, cluster: &ClusterId) -> &mut Share {
        let Self { cidrs, clusters, metrics } = self;
        clusters.entry(cluster.clone()).or_insert_with(|| {
            let fresh = |(range, prefix): &(Cidr, u8)| {
                let (range, prefix) = (*range, *prefix);
                let metrics = metrics.of(&range);
                let mut blocks = Blocks { range, prefix, used: HashMap::new(), next: 0, metrics };
                cidrs.excluded.iter().for_each(|cidr| blocks.occupy(cidr));
                blocks
            };
            Share { ranges: cidrs.ranges.iter().map(fresh).collect(), held: HashMap::new() }
        })
    }
}

impl Share {
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

    /// The next block that is free after the last one, so that those that were given back rest.
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
    fn every_node_gets_a_block_of_each_range() {
        let mut pool = pool(&["10.1.0.0/16", "fd00::/56"], &[]);
        assert_eq!(allocated(&mut pool, "a").unwrap(), ["10.1.0.0/24", "fd00::/64"]);
        assert_eq!(allocated(&mut pool, "b").unwrap(), ["10.1.1.0/24", "fd00:0:0:1::/64"]);
        assert_eq!(allocated(&mut pool, "a").unwrap(), ["10.1.0.0/24", "fd00::/64"], "once");
        let other = ObjectKey::cluster_wide(ClusterId::new("other"), "a");
        assert_eq!(pool.allocate(&other).unwrap()[0].to_string(), "10.1.0.0/24", "clusters do not meet");
    }

    #[test]
    fn what_is_taken_is_not_given_out() {
        let mut pool = pool(&["10.1.0.0/22"], &["10.1.1.0/24"]);
        pool.hold(&node("a"), vec![cidr("10.1.0.0/25")]);
        pool.hold(&node("elsewhere"), vec![cidr("10.9.0.0/24")]);
        assert_eq!(allocated(&mut pool, "b").unwrap(), ["10.1.2.0/24"]);
        assert_eq!(allocated(&mut pool, "c").unwrap(), ["10.1.3.0/24"]);
        assert_eq!(allocated(&mut pool, "d"), Err(Exhausted));
        assert!(!pool.hold(&node("b"), vec![cidr("10.1.2.0/24")]), "it keeps what it has");
        assert!(pool.hold(&node("b"), Vec::new()), "it is gone");
        assert_eq!(allocated(&mut pool, "d").unwrap(), ["10.1.2.0/24"]);
    }

    #[test]
    fn what_is_given_and_given_back_is_counted() {
        let metrics = Metrics::default();
        let cidrs = NodeCidrs::new(vec![cidr("10.1.0.0/22")], 24, 64).unwrap();
        let mut pool = Pool::new(cidrs, CidrMetrics::new(&metrics));
        let blocks = pool.allocate(&node("a")).unwrap();
        assert!(!pool.hold(&node("a"), blocks), "as it was given");
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
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }

    #[test]
    fn a_block_that_several_nodes_have_is_free_when_the_last_is_gone() {
        let mut pool = pool(&["10.1.0.0/24"], &[]);
        for name in ["a", "b"] {
            pool.hold(&node(name), vec![cidr("10.1.0.0/24")]);
        }
        pool.hold(&node("a"), Vec::new());
        assert_eq!(allocated(&mut pool, "c"), Err(Exhausted));
        pool.hold(&node("b"), Vec::new());
        assert!(!pool.knows(&ClusterId::default()), "a cluster without nodes is forgotten");
        assert_eq!(allocated(&mut pool, "c").unwrap(), ["10.1.0.0/24"]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
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
