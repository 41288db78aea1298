//! Rate limits for evictions by zone: the more nodes of a zone fail at once, the more likely the cause is not the
//! nodes themselves.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::{ClusterId, ObjectKey};

use super::NodeMonitor;
use crate::view::Node;

/// Label of nodes that do not count.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// Number of unready nodes up to which a zone is not disrupted.
const MIN_UNREADY: usize = 2;

/// Health of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// Permit to evict the pods of one more node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Granted,
    After(Duration),
    /// Not until the state of the zone changes.
    Stopped,
}

/// Effects of a node's change on other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shift {
    /// Unready nodes must be checked again.
    pub(super) changed: bool,
    /// A node is ready after none was.
    pub(super) recovered: bool,
}

/// The zones of all clusters.
#[derive(Debug, Default)]
pub(super) struct Zones {
    clusters: HashMap<ClusterId, Cluster>,
}

#[derive(Debug, Default)]
struct Cluster {
    nodes: HashMap<ObjectKey, Member>,
    zones: HashMap<Box<str>, Zone>,
    disrupted: bool,
}

/// Zone and readiness of a node; excluded nodes have no zone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    zone: Option<Box<str>>,
    ready: bool,
}

#[derive(Debug, Default)]
struct Zone {
    ready: usize,
    not_ready: usize,
    last_eviction: Option<Timestamp>,
}

impl Zones {
    /// True if the nodes of the cluster are loaded.
    pub(super) fn contains(&self, cluster: &ClusterId) -> bool {
        self.clusters.contains_key(cluster)
    }

    /// Records the state of a node; `None` if it is gone.
    pub(super) fn observe(&mut self, key: &ObjectKey, node: Option<&Node>, monitor: &NodeMonitor) -> Shift {
        let cluster = self.clusters.entry(key.cluster().clone()).or_default();
        let new = node.map(|node| Member { zone: counted_zone(node), ready: node.is_ready() });
        let old = cluster.nodes.get(key).cloned();
        if old == new {
            return Shift::default();
        }
        let before = cluster.states(monitor);
        if let Some(old) = old {
            cluster.count(&old, usize::wrapping_sub);
            cluster.nodes.remove(key);
        }
        if let Some(new) = new {
            cluster.count(&new, usize::wrapping_add);
            cluster.nodes.insert(key.clone(), new);
        }
        cluster.zones.retain(|_, zone| zone.ready + zone.not_ready > 0);
        let is_disrupted = cluster.is_disrupted();
        let was_disrupted = std::mem::replace(&mut cluster.disrupted, is_disrupted);
        if cluster.nodes.is_empty() {
            self.clusters.remove(key.cluster());
            return Shift::default();
        }
        let changed = before != cluster.states(monitor) || was_disrupted != cluster.disrupted;
        Shift { changed, recovered: was_disrupted && !cluster.disrupted }
    }

    /// True if no node of the cluster is ready, which rather means that this controller is disconnected.
    pub(super) fn is_disrupted(&self, cluster: &ClusterId) -> bool {
        self.clusters.get(cluster).is_some_and(|cluster| cluster.disrupted)
    }

    /// Numbers of ready and unready nodes by zone, in all clusters together.
    pub(super) fn tally(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut tally: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (name, zone) in self.clusters.values().flat_map(|cluster| &cluster.zones) {
            let (ready, not_ready) = tally.entry(name).or_default();
            *ready += zone.ready;
            *not_ready += zone.not_ready;
        }
        tally
    }

    /// Requests a permit to evict pods from a node. A granted permit delays the next ones.
    pub(super) fn permit(
        &mut self,
        key: &ObjectKey,
        node: &Node,
        now: Timestamp,
        monitor: &NodeMonitor,
    ) -> Permit {
        let Some(cluster) = self.clusters.get_mut(key.cluster()) else { return Permit::Granted };
        let Some(zone) = cluster.zones.get_mut(&*zone_of(node)) else { return Permit::Granted };
        let Some(interval) = zone.interval(monitor) else { return Permit::Stopped };
        let next = zone.last_eviction.map(|last| last + interval);
        match next.filter(|next| now < *next) {
            Some(next) => Permit::After(next.since(now)),
            None => {
                zone.last_eviction = Some(now);
                Permit::Granted
            }
        }
    }

    /// Returns a permit that was not used.
    pub(super) fn refund(&mut self, key: &ObjectKey, node: &Node) {
        let cluster = self.clusters.get_mut(key.cluster());
        if let Some(zone) = cluster.and_then(|cluster| cluster.zones.get_mut(&*zone_of(node))) {
            zone.last_eviction = None;
        }
    }
}

impl Cluster {
    fn count(&mut self, member: &Member, change: fn(usize, usize) -> usize) {
        let Some(name) = &member.zone else { return };
        let zone = self.zones.entry(name.clone()).or_default();
        let tally = if member.ready { &mut zone.ready } else { &mut zone.not_ready };
        *tally = change(*tally, 1);
    }

    fn is_disrupted(&self) -> bool {
        !self.zones.is_empty() && self.zones.values().all(|zone| zone.ready == 0)
    }

    fn states(&self, monitor: &NodeMonitor) -> HashMap<Box<str>, State> {
        self.zones.iter().map(|(name, zone)| (name.clone(), zone.state(monitor))).collect()
    }
}

impl Zone {
    fn state(&self, monitor: &NodeMonitor) -> State {
        let all = self.ready + self.not_ready;
        if self.ready == 0 && self.not_ready > 0 {
            State::FullDisruption
        } else if self.not_ready > MIN_UNREADY && self.not_ready * 100 >= all * monitor.unhealthy_zone_percent
        {
            State::PartialDisruption
        } else {
            State::Normal
        }
    }

    /// Time between two evictions; `None` if there must be none.
    fn interval(&self, monitor: &NodeMonitor) -> Option<Duration> {
        match self.state(monitor) {
            State::PartialDisruption if self.ready + self.not_ready <= monitor.large_zone => None,
            State::PartialDisruption => Some(monitor.reduced_eviction_interval),
            State::Normal | State::FullDisruption => Some(monitor.eviction_interval),
        }
    }
}

fn counted_zone(node: &Node) -> Option<Box<str>> {
    (!node.metadata.labels.contains_key(EXCLUDED)).then(|| zone_of(node))
}

/// Zone of a node, with its region. Older labels take precedence, as in Kubernetes.
pub(super) fn zone_of(node: &Node) -> Box<str> {
    let label = |old, new| {
        let labels = &node.metadata.labels;
        labels.get(old).or_else(|| labels.get(new)).unwrap_or_default()
    };
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    format!("{region}:\0:{zone}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(zone: &str, ready: bool) -> Node {
        let status = if ready { "True" } else { "False" };
        serde_json::from_value(json!({
            "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }))
        .unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster_wide(ClusterId::default(), name)
    }

    /// Zones `a` and `b` with these numbers of ready and unready nodes.
    fn zones(a: (usize, usize), b: (usize, usize)) -> Zones {
        let (mut zones, monitor) = (Zones::default(), NodeMonitor::default());
        for (zone, (ready, not_ready)) in [("a", a), ("b", b)] {
            for number in 0..ready + not_ready {
                let node = node(zone, number < ready);
                zones.observe(&key(&format!("{zone}{number}")), Some(&node), &monitor);
            }
        }
        zones
    }

    fn permits(zones: &mut Zones, zone: &str, times_s: &[u64]) -> Vec<Permit> {
        let (node, monitor) = (node(zone, false), NodeMonitor::default());
        let at = |seconds: &u64| Timestamp::from_millis(seconds * 1000);
        times_s.iter().map(|time| zones.permit(&key("x"), &node, at(time), &monitor)).collect()
    }

    #[test]
    fn zone_state_determines_the_eviction_rate() {
        let (granted, stopped) = (Permit::Granted, Permit::Stopped);
        let after = |seconds| Permit::After(Duration::from_secs(seconds));
        let cases = [
            // One of many nodes: one eviction in ten seconds.
            ((9, 1), (1, 0), vec![granted, after(4), granted]),
            // Most of a small zone: none.
            ((3, 7), (1, 0), vec![stopped, stopped, stopped]),
            // Most of a large zone: one eviction in a hundred seconds.
            ((20, 40), (1, 0), vec![granted, after(94), after(84)]),
            // A whole zone, while another is healthy: the normal rate.
            ((0, 7), (1, 0), vec![granted, after(4), granted]),
        ];
        for (a, b, expected) in cases {
            assert_eq!(permits(&mut zones(a, b), "a", &[100, 106, 116]), expected, "{a:?}");
        }
    }

    #[test]
    fn unused_permit_is_returned() {
        let mut zones = zones((9, 1), (1, 0));
        assert_eq!(permits(&mut zones, "a", &[100]), [Permit::Granted]);
        zones.refund(&key("x"), &node("a", false));
        assert_eq!(permits(&mut zones, "a", &[100]), [Permit::Granted]);
    }

    #[test]
    fn no_evictions_while_no_node_is_ready() {
        let (mut zones, monitor) = (zones((1, 1), (0, 1)), NodeMonitor::default());
        let cluster = ClusterId::default();
        assert!(!zones.is_disrupted(&cluster));
        let down = zones.observe(&key("a0"), Some(&node("a", false)), &monitor);
        assert_eq!(down, Shift { changed: true, recovered: false });
        assert!(zones.is_disrupted(&cluster));
        assert_eq!(zones.observe(&key("a0"), Some(&node("a", false)), &monitor), Shift::default());
        let up = zones.observe(&key("b0"), Some(&node("b", true)), &monitor);
        assert_eq!(up, Shift { changed: true, recovered: true });
    }

    #[test]
    fn excluded_and_deleted_nodes_do_not_count() {
        let (mut zones, monitor) = (zones((1, 1), (0, 0)), NodeMonitor::default());
        let mut excluded = node("a", true);
        excluded.metadata.labels = [(EXCLUDED, "")].into_iter().collect();
        zones.observe(&key("a0"), Some(&excluded), &monitor);
        assert!(zones.is_disrupted(&ClusterId::default()));
        zones.observe(&key("a1"), None, &monitor);
        assert!(!zones.is_disrupted(&ClusterId::default()), "there is nothing to disrupt");
        zones.observe(&key("a0"), None, &monitor);
        assert!(!zones.contains(&ClusterId::default()));
    }
}
