//! Running watches by their scope, for estimating the work after a write (`pkg/util/flowcontrol/watch_tracker.go` of
//! k8s.io/apiserver).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use coracle_registry::lifecycle::ALL_CLUSTERS;

use crate::authorization::{ResourceTarget, Target};
use crate::request_info::RequestInfo;

/// The running watches of all clusters.
#[derive(Default)]
pub(super) struct WatchCounts {
    /// By the hash of cluster, resource, namespace and name: a collision makes an estimate wrong and nothing else. An
    /// entry ends with its last watch.
    counts: Arc<RwLock<HashMap<u64, usize>>>,
    hasher: RandomState,
}

/// A running watch. It is counted until it is dropped.
pub(crate) struct CountedWatch {
    counts: Arc<RwLock<HashMap<u64, usize>>>,
    hash: u64,
}

impl WatchCounts {
    /// Counts a watch of a cluster, or of all. None for one that is not counted: a watch for the pods of one
    /// node, since an event of a pod concerns at most one of these.
    pub(super) fn begin(&self, cluster: &str, info: &RequestInfo) -> Option<CountedWatch> {
        let attributes = info.attributes();
        let Target::Resource(target) = &attributes.target else { return None };
        if attributes.verb != "watch" || selects_one_node(target) {
            return None;
        }
        let hash = self.hash(cluster, target, target.namespace, target.name);
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(hash).or_default() += 1;
        drop(counts);
        Some(CountedWatch { counts: self.counts.clone(), hash })
    }

    /// The watches that may receive the event of a write: those of its object, its namespace and its resource.
    pub(super) fn interested(&self, cluster: &str, target: &ResourceTarget<'_>) -> usize {
        let places = [
            Some((ALL_CLUSTERS, "", "")),
            Some((cluster, "", "")),
            (!target.namespace.is_empty()).then_some((cluster, target.namespace, "")),
            (!target.name.is_empty()).then_some((cluster, target.namespace, target.name)),
        ];
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        let count = |(cluster, namespace, name)| counts.get(&self.hash(cluster, target, namespace, name));
        places.into_iter().flatten().filter_map(count).sum()
    }

    fn hash(&self, cluster: &str, target: &ResourceTarget<'_>, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((cluster, target.group, target.resource, namespace, name))
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.hash) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.hash);
            }
        }
    }
}

fn selects_one_node(target: &ResourceTarget<'_>) -> bool {
    target.resource == "pods"
        && target.field_selector.iter().any(|requirement| {
            requirement.equal && &*requirement.field == "spec.nodeName" && !requirement.value.is_empty()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interested(counts: &WatchCounts, cluster: &str, path: &str) -> usize {
        let info = RequestInfo::new(&http::Method::PUT, &path.parse().unwrap());
        match info.attributes().target {
            Target::Resource(target) => counts.interested(cluster, &target),
            Target::Path(_) => panic!("{path} is no resource"),
        }
    }

    #[test]
    fn write_concerns_watches_of_its_object_namespace_and_resource() {
        let counts = WatchCounts::default();
        let watches: Vec<_> = [
            ("c", "/api/v1/pods?watch=1"),
            ("*", "/api/v1/pods?watch=1"),
            ("c", "/api/v1/namespaces/a/pods?watch=1"),
            ("c", "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Dp"),
            ("c", "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D"),
            ("c", "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn"),
            ("c", "/api/v1/nodes?watch=1"),
            ("c", "/api/v1/pods"),
        ]
        .into_iter()
        .filter_map(|(cluster, uri)| {
            counts.begin(cluster, &RequestInfo::new(&http::Method::GET, &uri.parse().unwrap()))
        })
        .collect();
        assert_eq!(watches.len(), 6);
        for (cluster, path, expected) in [
            ("c", "/api/v1/namespaces/a/pods/p", 5),
            ("c", "/api/v1/namespaces/a/pods/q", 4),
            ("c", "/api/v1/namespaces/a/pods", 4),
            ("c", "/api/v1/namespaces/b/pods/p", 3),
            ("d", "/api/v1/namespaces/a/pods/p", 1),
            ("c", "/api/v1/nodes/n", 1),
            ("c", "/api/v1/namespaces/a/secrets/p", 0),
        ] {
            assert_eq!(interested(&counts, cluster, path), expected, "{cluster} {path}");
        }
        drop(watches);
        assert!(counts.counts.read().unwrap().is_empty());
    }
}
