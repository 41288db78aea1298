//! The kinds that a cluster serves, from its discovery documents.

use std::sync::Arc;

use coracle_runtime::{ClusterId, ResourcePath};
use http::Request;
use http::header::ACCEPT;
use kube::Client;
use serde::Deserialize;

/// Media type of aggregated discovery, which returns all versions of all groups at once.
pub(crate) const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Freshness of a version whose API server does not answer.
const STALE: &str = "Stale";

/// A kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) group: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) plural: Box<str>,
    pub(crate) namespaced: bool,
    verbs: Box<[Box<str>]>,
}

impl ServedKind {
    /// Group and version, as in `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
    }

    /// API path of its objects.
    pub(crate) fn path(&self) -> ResourcePath {
        ResourcePath::new(&self.group, &self.version, &self.plural)
    }

    /// True if it supports all of these verbs.
    pub(crate) fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|known| **known == **verb))
    }
}

/// All kinds of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Versions of a group are ordered by preference.
    all: Vec<Arc<ServedKind>>,
    /// Groups and versions whose API server does not answer.
    stale: Vec<String>,
}

impl Kinds {
    /// Reads the discovery documents of a cluster.
    pub(crate) async fn read(client: &Client, cluster: &ClusterId) -> kube::Result<Self> {
        let mut kinds = Self::default();
        for root in ["/api", "/apis"] {
            let request =
                Request::get(format!("{}{root}", cluster.path())).header(ACCEPT, AGGREGATED_DISCOVERY);
            let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
            kinds.add(client.request(request).await?);
        }
        Ok(kinds)
    }

    fn add(&mut self, list: GroupList) {
        for group in list.items {
            for version in group.versions {
                if version.freshness == STALE {
                    self.stale.push(format!("{}/{}", group.metadata.name, version.version));
                }
                self.all.extend(version.resources.into_iter().map(|resource| {
                    Arc::new(ServedKind {
                        group: group.metadata.name.clone(),
                        version: version.version.clone(),
                        kind: resource.response_kind.kind,
                        plural: resource.resource,
                        namespaced: resource.scope == "Namespaced",
                        verbs: resource.verbs,
                    })
                }));
            }
        }
    }

    /// Each kind once, in its preferred version.
    pub(crate) fn preferred(&self) -> impl Iterator<Item = &Arc<ServedKind>> {
        let is_first = |index: usize, kind: &ServedKind| {
            let same = |other: &&Arc<ServedKind>| other.group == kind.group && other.plural == kind.plural;
            !self.all[..index]
                .iter()
                .rev()
                .take_while(|other| other.group == kind.group)
                .any(|one| same(&one))
        };
        self.all.iter().enumerate().filter(move |(index, kind)| is_first(*index, kind)).map(|(_, kind)| kind)
    }

    /// Resolves the kind of a reference; `None` if it is not served.
    pub(crate) fn resolve(&self, api_version: &str, kind: &str) -> Option<&Arc<ServedKind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.all
            .iter()
            .find(|known| *known.kind == *kind && *known.group == *group && *known.version == *version)
    }

    /// Groups and versions whose API server does not answer.
    pub(crate) fn stale(&self) -> &[String] {
        &self.stale
    }

    /// True if the API server of a group does not answer.
    pub(crate) fn is_stale(&self, group: &str) -> bool {
        self.stale.iter().any(|stale| stale.split_once('/').is_some_and(|(name, _)| name == group))
    }

    #[cfg(test)]
    pub(crate) fn of(documents: serde_json::Value) -> Self {
        let mut kinds = Self::default();
        kinds.add(serde_json::from_value(documents).unwrap());
        kinds
    }
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupMetadata {
    #[serde(default)]
    name: Box<str>,
}

#[derive(Deserialize)]
struct Version {
    version: Box<str>,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: Box<str>,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Box<[Box<str>]>,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: Box<str>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(plural: &str, kind: &str) -> serde_json::Value {
        json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]})
    }

    #[test]
    fn kinds_resolve_in_all_versions_and_prefer_one() {
        let kinds = Kinds::of(json!({"items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("pods", "Pod")]}]},
            {"metadata": {"name": "example.org"}, "versions": [
                {"version": "v2", "resources": [resource("boats", "Boat")]},
                {"version": "v1", "freshness": "Stale",
                 "resources": [resource("boats", "Boat"), resource("oars", "Oar")]},
            ]},
        ]}));
        let preferred: Vec<_> =
            kinds.preferred().map(|kind| (kind.api_version(), kind.plural.to_string())).collect();
        let expected = [("v1", "pods"), ("example.org/v2", "boats"), ("example.org/v1", "oars")];
        assert_eq!(preferred, expected.map(|(version, plural)| (version.to_owned(), plural.to_owned())));
        assert!(kinds.resolve("example.org/v1", "Boat").unwrap().can(&["list"]));
        assert!(kinds.resolve("example.org/v3", "Boat").is_none() && kinds.resolve("v1", "Boat").is_none());
        assert!(kinds.is_stale("example.org") && !kinds.is_stale(""));
    }
}
