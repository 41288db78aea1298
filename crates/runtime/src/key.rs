//! What caches and queues know an object by.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// The name of the cluster that plain paths mean.
const DEFAULT: &str = "default";

/// The cluster an object lives in.
///
/// One server serves many clusters, and ten thousand of them must not cost ten thousand managers. So every
/// key says whose it is, from the event to the reconcile: an informer that follows all clusters at once
/// ([`Manager::all_clusters`](crate::Manager::all_clusters)) feeds the same queues and the same controllers as
/// one that follows a single cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(Arc<str>);

impl ClusterId {
    /// The cluster of this name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Stands for all clusters, as the place of what every cluster begins with.
    pub(crate) fn all_clusters() -> &'static Self {
        static ALL_CLUSTERS: LazyLock<ClusterId> = LazyLock::new(|| ClusterId::new("*"));
        &ALL_CLUSTERS
    }

    /// Whether it stands for all clusters.
    pub fn is_all_clusters(&self) -> bool {
        self == Self::all_clusters()
    }

    /// What stands before the paths of its objects; nothing for the default one.
    pub fn path(&self) -> String {
        if &*self.0 == DEFAULT { String::new() } else { format!("/clusters/{}", self.0) }
    }
}

impl Default for ClusterId {
    /// The cluster of plain paths, without `/clusters/<id>` before them.
    fn default() -> Self {
        static PLAIN: LazyLock<ClusterId> = LazyLock::new(|| ClusterId::new(DEFAULT));
        PLAIN.clone()
    }
}

/// Which object of a kind is meant. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    cluster: ClusterId,
    /// Empty for what is in no namespace.
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// An object in a namespace.
    pub fn namespaced(cluster: ClusterId, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { cluster, namespace: namespace.into(), name: name.into() }
    }

    /// An object in no namespace.
    pub fn cluster_wide(cluster: ClusterId, name: impl Into<Arc<str>>) -> Self {
        Self::namespaced(cluster, "", name)
    }

    /// The object of the same name in another cluster.
    #[must_use]
    pub(crate) fn in_cluster(&self, cluster: &ClusterId) -> Self {
        Self { cluster: cluster.clone(), ..self.clone() }
    }

    /// The key of the namespace this object is in; none if it is in none.
    pub fn namespace_key(&self) -> Option<Self> {
        let within = !self.namespace.is_empty();
        within.then(|| Self::cluster_wide(self.cluster.clone(), Arc::clone(&self.namespace)))
    }

    /// Whose it is.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// Where it is; empty if in no namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    /// `namespace/name`, as logs of controllers have it, after the cluster if it is not the default one.
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
    fn keys_are_shown_as_in_kubernetes() {
        let pod = ObjectKey::namespaced(ClusterId::default(), "kube-system", "dns");
        assert_eq!(pod.to_string(), "kube-system/dns");
        assert_eq!(pod.namespace_key().unwrap().to_string(), "kube-system");
        assert_eq!(pod.namespace_key().unwrap().namespace_key(), None);
        assert_eq!(ObjectKey::cluster_wide(ClusterId::new("blue"), "n1").to_string(), "blue:n1");
    }

    #[test]
    fn the_same_name_in_two_clusters_is_two_objects() {
        let of = |cluster| ObjectKey::cluster_wide(ClusterId::new(cluster), "default");
        assert_ne!(of("blue"), of("green"));
    }
}
