//! State of one cluster that plugins read during a scheduling cycle.

use std::collections::HashMap;
use std::sync::Arc;

use coracle_runtime::informer::Labels;
use coracle_runtime::{ClusterId, ObjectKey};

use crate::cache::{Cache, NodeInfo};
use crate::queue::Nominated;
use crate::storage::Storage;
use crate::view::Pod;
use crate::view::workload::{BySelector, BySet, DisruptionBudget, Namespace};

/// Objects by namespace and name.
type ByName<T> = HashMap<(Box<str>, Box<str>), Arc<T>>;

/// The cached state of one cluster.
#[derive(Debug, Default)]
pub struct ClusterState {
    pub(crate) cluster: ClusterId,
    pub(crate) cache: Cache,
    pub(crate) storage: Storage,
    pub(crate) workloads: Workloads,
    /// Pods nominated to nodes.
    pub(crate) nominated: Nominated,
}

impl ClusterState {
    /// An empty cluster.
    pub(crate) fn new(cluster: ClusterId) -> Self {
        Self { cluster, ..Self::default() }
    }

    /// The ID of the cluster.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// All nodes, in the order in which they are examined.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.cache.cached_order().iter().map(|index| self.cache.info(*index))
    }

    /// A node by name.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.cache.find(name)
    }

    /// A pod that is assigned to a node or assumed on one.
    pub fn placed_pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.cache.pod(uid)
    }

    /// Pods nominated to a node, which wait until their victims have left it.
    pub fn nominated_pods(&self, node: &str) -> &[Arc<Pod>] {
        self.nominated.on(node)
    }

    /// The labels of a namespace; empty if it does not exist.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        self.workloads.namespace_labels(name)
    }

    /// The key of a pod for informers and requests.
    pub fn key_of(&self, pod: &Pod) -> ObjectKey {
        ObjectKey::namespaced(self.cluster.clone(), &*pod.metadata.namespace, &*pod.metadata.name)
    }
}

/// Objects that group pods.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    pub(crate) namespaces: HashMap<Box<str>, Arc<Namespace>>,
    /// By namespace, and then by name.
    pub(crate) services: HashMap<Box<str>, HashMap<Box<str>, Arc<BySet>>>,
    pub(crate) replication_controllers: ByName<BySet>,
    pub(crate) replica_sets: ByName<BySelector>,
    pub(crate) stateful_sets: ByName<BySelector>,
    pub(crate) budgets: ByName<DisruptionBudget>,
}

impl Workloads {
    /// The labels of a namespace; empty if it does not exist, as in kube-scheduler.
    pub(crate) fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
        self.namespaces.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }

    /// The services of a namespace that select a pod with these labels.
    pub(crate) fn services_of<'a>(
        &'a self,
        namespace: &str,
        labels: &'a Labels,
    ) -> impl Iterator<Item = &'a BySet> {
        let services = self.services.get(namespace).into_iter().flat_map(HashMap::values);
        services.map(|service| &**service).filter(|service| service.selects(labels))
    }

    /// Adds, updates or removes (none) a service.
    pub(crate) fn set_service(&mut self, namespace: &str, name: &str, service: Option<Arc<BySet>>) {
        let of_namespace = self.services.entry(namespace.into()).or_default();
        match service {
            Some(service) => drop(of_namespace.insert(name.into(), service)),
            None => drop(of_namespace.remove(name)),
        }
        if of_namespace.is_empty() {
            self.services.remove(namespace);
        }
    }
}
