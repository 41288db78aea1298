//! Keys of caches and work queues: cluster, namespace and name.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// Cluster of API paths without a `/clusters/<id>` prefix.
const DEFAULT: &str = "default";

/// Id of the cluster that an object belongs to.
///
/// One server serves many clusters, and ten thousand of them must not need ten thousand managers. So every key
/// carries its cluster, from the watch event to the reconcile: an informer of all clusters
/// ([`Manager::all_clusters`](crate::Manager::all_clusters)) feeds the same queues and controllers as the informer of
/// a single cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(Arc<str>);

impl ClusterId {
    /// Creates the id of the cluster with this name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the cluster's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The wildcard `*`: watches of all clusters, and the bootstrap objects that all clusters share.
    pub(crate) fn all_clusters() -> &'static Self {
        static ALL_CLUSTERS: LazyLock<ClusterId> = LazyLock::new(|| ClusterId::new("*"));
        &ALL_CLUSTERS
    }

    /// True for the wildcard that stands for all clusters.
    pub fn is_all_clusters(&self) -> bool {
        self == Self::all_clusters()
    }

    /// Prefix of the cluster's API paths; empty for the default cluster.
    pub fn path(&self) -> String {
        if &*self.0 == DEFAULT { String::new() } else { format!("/clusters/{}", self.0) }
    }
}

impl Default for ClusterId {
    /// The cluster of API paths without a `/clusters/<id>` prefix.
    fn default() -> Self {
        static PLAIN: LazyLock<ClusterId> = LazyLock::new(|| ClusterId::new(DEFAULT));
        PLAIN.clone()
    }
}

/// Cluster, namespace and name of an object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    cluster: ClusterId,
    /// Empty for cluster-scoped objects.
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// Key of a namespaced object.
    pub fn namespaced(cluster: ClusterId, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { cluster, namespace: namespace.into(), name: name.into() }
    }

    /// Key of a cluster-scoped object.
    pub fn cluster_wide(cluster: ClusterId, name: impl Into<Arc<str>>) -> Self {
        Self::namespaced(cluster, "", name)
    }

    /// Key of the same namespace and name in another cluster.
    #[must_use]
    pub(crate) fn in_cluster(&self, cluster: &ClusterId) -> Self {
        Self { cluster: cluster.clone(), ..self.clone() }
    }

    /// Key of the object's namespace; `None` for cluster-scoped objects.
    pub fn namespace_key(&self) -> Option<Self> {
        let within = !self.namespace.is_empty();
        within.then(|| Self::cluster_wide(self.cluster.clone(), Arc::clone(&self.namespace)))
    }

    /// Cluster of the object.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// Namespace of the object; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    /// Formats as `namespace/name`, as Kubernetes' controllers log it, prefixed with the cluster unless it is the
    /// default one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cluster.as_str() != DEFAULT {
            write!(f, "{}:", self.cluster.as_str())?;
        }
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_format_as_in_kubernetes() {
        let pod = ObjectKey::namespaced(ClusterId::default(), "kube-system", "dns");
        assert_eq!(pod.to_string(), "kube-system/dns");
        assert_eq!(pod.namespace_key().unwrap().to_string(), "kube-system");
        assert_eq!(pod.namespace_key().unwrap().namespace_key(), None);
        assert_eq!(ObjectKey::cluster_wide(ClusterId::new("blue"), "n1").to_string(), "blue:n1");
    }

    #[test]
    fn same_name_in_two_clusters_is_different_keys() {
        let of = |cluster| ObjectKey::cluster_wide(ClusterId::new(cluster), "default");
        assert_ne!(of("blue"), of("green"));
    }
}
