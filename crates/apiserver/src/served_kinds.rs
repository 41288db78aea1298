//! The API groups and kinds that one cluster serves at a given moment: the built-in kinds and those of its
//! CustomResourceDefinitions. Versions that an APIService delegates to another server are included as unavailable.

use std::collections::BTreeMap;

use coracle_meta::gvk::compare_versions;
use coracle_registry::kinds::metrics;
use coracle_registry::{Cluster, Kind, KindRef, RemoteVersion, Result, catalog};

/// The kinds that a cluster serves. Cheap to create if there are no custom kinds.
pub(crate) struct ServedKinds {
    custom: Vec<KindRef>,
    /// Versions that APIServices delegate to other servers, except those that are served here.
    remote: Vec<RemoteVersion>,
}

impl ServedKinds {
    /// Reads the kinds that a cluster serves now.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self> {
        let served = Self { custom: cluster.custom_kinds().await?, remote: Vec::new() };
        let mut remote = cluster.remote_versions().await?;
        remote.retain(|RemoteVersion { group, version }| served.served(group, version).next().is_none());
        Ok(Self { remote, ..served })
    }

    /// The kinds that every cluster serves.
    pub(crate) fn built_in() -> Self {
        Self { custom: Vec::new(), remote: Vec::new() }
    }

    /// Returns true if there are only the kinds that every cluster serves.
    pub(crate) fn is_built_in(&self) -> bool {
        self.custom.is_empty() && self.remote.is_empty()
    }

    /// Returns true if an APIService delegates a version to another server.
    pub(crate) fn is_remote(&self, group: &str, version: &str) -> bool {
        self.remote.iter().any(|remote| remote.group == group && remote.version == version)
    }

    /// All kinds; a custom kind occurs once for each version.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &dyn Kind> {
        let built_in = catalog::BUILT_IN.iter().map(|kind| *kind as &dyn Kind);
        built_in.chain(self.custom.iter().map(|kind| &**kind))
    }

    /// All groups except the core group: first the built-in ones in catalog order, then others in the order in which
    /// kube-apiserver would register their versions.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for kind in catalog::BUILT_IN {
            let group = &*kind.declaration().group;
            if !group.is_empty() && !groups.contains(&group) {
                groups.push(group);
            }
        }
        let mut registered = BTreeMap::new();
        for kind in &self.custom {
            let declaration = kind.declaration();
            for version in &declaration.versions {
                registered.insert(format!("{version}.{}", declaration.group), &*declaration.group);
            }
        }
        for RemoteVersion { group, version } in &self.remote {
            registered.insert(format!("{version}.{group}"), group);
        }
        for group in registered.into_values() {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let of_group = self.kinds().map(Kind::declaration).filter(|declaration| declaration.group == group);
        let mut versions: Vec<&str> =
            of_group.flat_map(|declaration| declaration.versions.iter().map(|version| &**version)).collect();
        let remote = self.remote.iter().filter(|remote| remote.group == group);
        versions.extend(remote.map(|remote| &*remote.version));
        versions.sort_by(|a, b| compare_versions(b, a));
        versions.dedup();
        versions
    }

    /// All groups and versions, the core group first.
    pub(crate) fn group_versions(&self) -> Vec<(&str, &str)> {
        let all = std::iter::once("").chain(self.groups());
        all.flat_map(|group| self.versions(group).into_iter().map(move |version| (group, version))).collect()
    }

    /// Like [`group_versions`](Self::group_versions), but without groups that no OpenAPI document describes:
    /// `metrics.k8s.io`, which the metrics-server does not describe to clients either, and groups of other servers.
    pub(crate) fn described_group_versions(&self) -> Vec<(&str, &str)> {
        let mut all = self.group_versions();
        all.retain(|(group, version)| *group != metrics::GROUP && !self.is_remote(group, version));
        all
    }

    /// The kinds of a group and version.
    pub(crate) fn served<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a dyn Kind> + 'a {
        self.kinds().filter(move |kind| {
            let declaration = kind.declaration();
            declaration.group == group && declaration.versions.iter().any(|served| served == version)
        })
    }
}

/// Returns true if there is a built-in group of this name.
pub(crate) fn has_built_in_group(name: &str) -> bool {
    catalog::BUILT_IN.iter().any(|kind| kind.declaration().group == name)
}
