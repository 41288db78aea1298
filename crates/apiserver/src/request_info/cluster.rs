//! The cluster that a path selects: `/clusters/ID/…`, or the default one.

use coracle_meta::name::dns1123_label;
use coracle_registry::DEFAULT_CLUSTER;
use coracle_registry::lifecycle::ALL_CLUSTERS;

use super::Route;

/// The cluster of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClusterSelector {
    /// A path without `/clusters/`.
    #[default]
    Default,
    /// `/clusters/ID/…`, where the cluster may not exist.
    Named(String),
    /// `/clusters/*/…`.
    All,
    /// `/clusters/…/…` with an invalid id.
    Invalid,
}

impl ClusterSelector {
    /// Splits a path as it was sent into the cluster and the path within the cluster. Ids are compared as they are
    /// written: an encoded character is not decoded, so `%2A` is not `*`.
    pub(super) fn split(path: &str) -> (Self, &str) {
        let named = path.strip_prefix("/clusters/").and_then(|rest| rest.split_once('/'));
        let Some((id, rest)) = named.filter(|(_, rest)| !rest.is_empty()) else {
            return (Self::Default, path);
        };
        let selector = match id {
            ALL_CLUSTERS => Self::All,
            id if dns1123_label(id).is_empty() => Self::Named(id.to_owned()),
            _ => Self::Invalid,
        };
        (selector, &path[path.len() - rest.len() - 1..])
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// The id of the cluster whose objects authenticate and authorize the request. None if the id is invalid.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Default | Self::All => Some(DEFAULT_CLUSTER),
            Self::Named(id) => Some(id),
            Self::Invalid => None,
        }
    }

    /// Returns true if a route is served for this selection. The admin API is served only without `/clusters/`, and
    /// `/clusters/*/` serves only resources.
    pub(super) fn has(&self, route: &Route) -> bool {
        match self {
            Self::Default => true,
            Self::Named(_) => !matches!(route, Route::Clusters(_)),
            Self::All => matches!(route, Route::Resource),
            Self::Invalid => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_cluster_ids_are_rejected() {
        let named = |id: &str| ClusterSelector::Named(id.to_owned());
        for (path, expected, rest) in [
            ("/api/v1/pods", ClusterSelector::Default, "/api/v1/pods"),
            ("/clusters/t1/api/v1/pods", named("t1"), "/api/v1/pods"),
            ("/clusters/t1/nothing", named("t1"), "/nothing"),
            ("/clusters/*/api/v1/pods", ClusterSelector::All, "/api/v1/pods"),
            ("/clusters/t1", ClusterSelector::Default, "/clusters/t1"),
            ("/clusters/t1/", ClusterSelector::Default, "/clusters/t1/"),
            ("/clusters/%2A/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/%2a/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/%64efault/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/%74%31/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/**/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/T1/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/t_1/api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/./api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters/../api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
            ("/clusters//api/v1/pods", ClusterSelector::Invalid, "/api/v1/pods"),
        ] {
            assert_eq!(ClusterSelector::split(path), (expected, rest), "{path}");
        }
    }
}
