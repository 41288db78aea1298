//! Sum of the desired replicas of the owners of pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coracle_runtime::informer::{ObjectMetadata, OwnerReference};
use coracle_runtime::{ObjectKey, Objects, ResourcePath};
use kube::Client;
use serde::Deserialize;

use crate::api_error;
use crate::view::{ONE_REPLICA, Pod};

/// Why the sum is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("{}", api_error::message(.0))]
    Request(#[from] kube::Error),
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    UnknownKind { kind: Box<str>, api_version: Box<str> },
    #[error("{resource} does not implement the scale subresource")]
    NoScale { resource: String },
    #[error("found no controllers for pod {pod:?}")]
    NoController { pod: Box<str> },
}

/// Sum of the owners' desired replicas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pods: i32,
    /// True if there are pods without a controller.
    pub(super) has_unmanaged: bool,
}

/// An owner, or its scale subresource.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Replicated {
    metadata: ObjectMetadata,
    spec: ReplicatedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplicatedSpec {
    replicas: Option<i32>,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: Box<str>,
    kind: Box<str>,
}

/// Reads owners from the server: budgets are computed rarely, and owners are few.
#[derive(Clone)]
pub(super) struct Owners {
    client: Client,
}

impl Owners {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Sums the desired replicas of the pods' owners.
    pub(super) async fn wanted(&self, beside: &ObjectKey, pods: &[Arc<Pod>]) -> Result<Wanted, ScaleError> {
        let (mut wanted, mut seen) = (Wanted::default(), HashSet::new());
        let mut scales: HashMap<Box<str>, i32> = HashMap::new();
        for pod in pods {
            let Some(owner) = pod.metadata.controller() else {
                wanted.has_unmanaged = true;
                continue;
            };
            if seen.insert(&owner.uid) {
                let key =
                    |name: &str| ObjectKey::namespaced(beside.cluster().clone(), beside.namespace(), name);
                let found = self.scale(&key(&owner.name), owner, key).await?;
                let missing = || ScaleError::NoController { pod: pod.metadata.name().into() };
                let (uid, replicas) = found.ok_or_else(missing)?;
                scales.insert(uid, replicas);
            }
        }
        wanted.pods = scales.values().copied().fold(0, i32::saturating_add);
        Ok(wanted)
    }

    /// Uid and desired replicas of the topmost owner; `None` if it does not exist.
    async fn scale(
        &self,
        key: &ObjectKey,
        owner: &OwnerReference,
        beside: impl Fn(&str) -> ObjectKey,
    ) -> Result<Option<(Box<str>, i32)>, ScaleError> {
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
        let Some(plural) = well_known(group, &owner.kind) else {
            return self.any_scale(key, owner, group, version).await;
        };
        let Some(found) = self.get(group, plural, key).await? else { return Ok(None) };
        if found.metadata.uid() != &*owner.uid {
            return Ok(None);
        }
        // The replica sets of a deployment change size during rollouts, so the deployment counts.
        let deployment = found.metadata.controller().filter(|owner| {
            plural == "replicasets" && &*owner.kind == "Deployment" && owner.api_version.starts_with("apps/")
        });
        if let Some(owner) = deployment {
            let deployment = self.get("apps", "deployments", &beside(&owner.name)).await?;
            if let Some(deployment) = deployment.filter(|found| found.metadata.uid() == &*owner.uid) {
                return Ok(Some(uid_and_replicas(&deployment)));
            }
        }
        Ok(Some(uid_and_replicas(&found)))
    }

    async fn get(&self, group: &str, plural: &str, key: &ObjectKey) -> kube::Result<Option<Replicated>> {
        Objects::at(&self.client, ResourcePath::new(group, "v1", plural)).get(key).await
    }

    /// Scale of any other kind with a scale subresource.
    async fn any_scale(
        &self,
        key: &ObjectKey,
        owner: &OwnerReference,
        group: &str,
        version: &str,
    ) -> Result<Option<(Box<str>, i32)>, ScaleError> {
        let resources = self.resources(key, group, version).await?;
        let is_kind = |resource: &&Resource| resource.kind == owner.kind && !resource.name.contains('/');
        let Some(resource) = resources.iter().find(is_kind) else {
            let (kind, api_version) = (owner.kind.clone(), owner.api_version.clone());
            return Err(ScaleError::UnknownKind { kind, api_version });
        };
        let scale = format!("{}/scale", resource.name);
        if !resources.iter().any(|resource| *resource.name == *scale) {
            let dot = if group.is_empty() { "" } else { "." };
            return Err(ScaleError::NoScale { resource: format!("{}{dot}{group}", resource.name) });
        }
        let objects = Objects::at(&self.client, ResourcePath::new(group, version, &resource.name));
        let found: Option<Replicated> = objects.get_subresource(key, "scale").await?;
        let found = found.filter(|found| found.metadata.uid() == &*owner.uid);
        // Missing replicas in a scale mean zero.
        Ok(found.map(|found| (found.metadata.uid().into(), found.spec.replicas.unwrap_or_default())))
    }

    async fn resources(&self, beside: &ObjectKey, group: &str, version: &str) -> kube::Result<Vec<Resource>> {
        let path = ResourcePath::new(group, version, "").collection(beside.cluster(), "");
        let request = http::Request::get(path.trim_end_matches('/')).body(Vec::new());
        let list = self.client.request::<ResourceList>(request.map_err(kube::Error::HttpError)?).await;
        match list {
            Err(error) if api_error::is_missing(&error) => Ok(Vec::new()),
            list => list.map(|list| list.resources),
        }
    }
}

fn uid_and_replicas(found: &Replicated) -> (Box<str>, i32) {
    (found.metadata.uid().into(), found.spec.replicas.unwrap_or(ONE_REPLICA))
}

/// Kinds that hold the replicas in their spec.
fn well_known(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "ReplicationController") => Some("replicationcontrollers"),
        ("apps", "ReplicaSet") => Some("replicasets"),
        ("apps", "StatefulSet") => Some("statefulsets"),
        _ => None,
    }
}
