//! Discovery for autoscalers: maps kinds to resources.

use coracle_runtime::{ClusterId, ResourcePath};
use serde::Deserialize;

use super::fetch::{Fetcher, error_message};
use super::object::ObjectReference;

/// Built-in scalable kinds, which need no discovery.
const WELL_KNOWN: [(&str, &str, &str, &str); 4] = [
    ("apps", "Deployment", "v1", "deployments"),
    ("apps", "ReplicaSet", "v1", "replicasets"),
    ("apps", "StatefulSet", "v1", "statefulsets"),
    ("", "ReplicationController", "v1", "replicationcontrollers"),
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Group {
    versions: Vec<GroupVersion>,
    pub(super) preferred_version: GroupVersion,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct GroupVersion {
    pub(super) version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    kind: String,
}

impl Fetcher {
    /// Path of a kind's objects, or the reason why it is unknown.
    pub(super) async fn resource(
        &self,
        cluster: &ClusterId,
        target: &ObjectReference,
    ) -> Result<ResourcePath, String> {
        let Some(group) = target.group() else {
            return Err(format!("unexpected GroupVersion string: {}", target.api_version));
        };
        let known = WELL_KNOWN.iter().find(|known| (known.0, known.1) == (group, &*target.kind));
        if let Some((group, _, version, plural)) = known {
            return Ok(ResourcePath::new(group, version, plural));
        }
        let found = self.discover(cluster, group, &target.kind).await?;
        let (version, plural) =
            found.ok_or_else(|| format!("no matches for kind {:?} in group {group:?}", target.kind))?;
        Ok(ResourcePath::new(group, &version, &plural))
    }

    /// Version and plural name of a kind, preferred version first.
    async fn discover(
        &self,
        cluster: &ClusterId,
        group: &str,
        kind: &str,
    ) -> Result<Option<(String, String)>, String> {
        let mut versions = vec!["v1".to_owned()];
        if !group.is_empty() {
            let Some(found) = self.group(cluster, group).await? else { return Ok(None) };
            versions = vec![found.preferred_version.version];
            versions.extend(found.versions.into_iter().map(|other| other.version));
        }
        for version in versions {
            let path = version_path(cluster, group, &version);
            let Some(listed) = optional(self.get::<Resources>(&path).await)? else { continue };
            let mut resources = listed.resources.into_iter();
            if let Some(found) = resources.find(|one| one.kind == kind && !one.name.contains('/')) {
                return Ok(Some((version, found.name)));
            }
        }
        Ok(None)
    }

    /// Discovery of a group; `None` if it is not served.
    pub(super) async fn group(&self, cluster: &ClusterId, group: &str) -> Result<Option<Group>, String> {
        let path = version_path(cluster, group, "");
        optional(self.get(path.trim_end_matches('/')).await)
    }

    /// Name of a kind's resource in metrics APIs, such as `ingresses.networking.k8s.io`.
    pub(super) async fn metrics_resource(
        &self,
        cluster: &ClusterId,
        object: &ObjectReference,
    ) -> Result<String, String> {
        let group = object.group().unwrap_or_default();
        let found = self.discover(cluster, group, &object.kind).await?;
        let (_, plural) = found.ok_or_else(|| {
            let kind = &object.kind;
            format!(
                "unable to fetch metrics from custom metrics API: unable to map kind {kind}.{group} to resource: \
                 no matches for kind {kind:?} in group {group:?}"
            )
        })?;
        Ok(if group.is_empty() { plural } else { format!("{plural}.{group}") })
    }
}

/// Maps 404 to `None`.
fn optional<T>(answer: kube::Result<T>) -> Result<Option<T>, String> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error_message(&error, "get")),
    }
}

/// API path of a group version.
fn version_path(cluster: &ClusterId, group: &str, version: &str) -> String {
    ResourcePath::new(group, version, "").collection(cluster, "").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_paths() {
        let cluster = ClusterId::default();
        assert_eq!(version_path(&cluster, "a.example", "v1"), "/apis/a.example/v1");
        assert_eq!(version_path(&cluster, "a.example", ""), "/apis/a.example");
        assert_eq!(version_path(&cluster, "", "v1"), "/api/v1");
    }
}
