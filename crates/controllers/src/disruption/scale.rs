//! How many pods the owners of some pods want, all together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coracle_runtime::informer::{ObjectMetadata, OwnerReference};
use coracle_runtime::{ObjectKey, Objects, ResourcePath};
use kube::Client;
use serde::Deserialize;

use crate::refusal;
use crate::view::{ONE_REPLICA, Pod};

/// Why it is not known how many pods there should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("{}", refusal::message(.0))]
    Refused(#[from] kube::Error),
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    UnknownKind { kind: Box<str>, api_version: Box<str> },
    #[error("{resource} does not implement the scale subresource")]
    NoScale { resource: String },
    #[error("found no controllers for pod {pod:?}")]
    NoController { pod: Box<str> },
}

/// What owners of pods want.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pods: i32,
    /// Whether there are pods that nobody manages.
    pub(super) has_unmanaged: bool,
}

/// An owner, or the scale of one.
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

/// Asks the server: budgets are counted rarely, and owners are few.
#[derive(Clone)]
pub(super) struct Owners {
    client: Client,
}

impl Owners {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// How many pods the owners of these want.
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

    /// The owner in the end, and how many pods it wants; none if it is not there.
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
        // A set of a deployment grows and shrinks while there is a new one: what counts is the deployment.
        let deployment = found.metadata.controller().filter(|owner| {
            plural == "replicasets" && &*owner.kind == "Deployment" && owner.api_version.starts_with("apps/")
        });
        if let Some(owner) = deployment {
            let deployment = self.get("apps", "deployments", &beside(&owner.name)).await?;
            if let Some(deployment) = deployment.filter(|found| found.metadata.uid() == &*owner.uid) {
                return Ok(Some(named(&deployment)));
            }
        }
        Ok(Some(named(&found)))
    }

    async fn get(&self, group: &str, plural: &str, key: &ObjectKey) -> kube::Result<Option<Replicated>> {
        Objects::at(&self.client, ResourcePath::new(group, "v1", plural)).get(key).await
    }

    /// That of any kind that has a scale.
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
        // An empty amount in a scale is none at all.
        Ok(found.map(|found| (found.metadata.uid().into(), found.spec.replicas.unwrap_or_default())))
    }

    async fn resources(&self, beside: &ObjectKey, group: &str, version: &str) -> kube::Result<Vec<Resource>> {
        let path = ResourcePath::new(group, version, "").collection(beside.cluster(), "");
        let request = http::Request::get(path.trim_end_matches('/')).body(Vec::new());
        let list = self.client.request::<ResourceList>(request.map_err(kube::Error::HttpError)?).await;
        match list {
            Err(error) if refusal::is_missing(&error) => Ok(Vec::new()),
            list => list.map(|list| list.resources),
        }
    }
}

fn named(found: &Replicated) -> (Box<str>, i32) {
    (found.metadata.uid().into(), found.spec.replicas.unwrap_or(ONE_REPLICA))
}

/// Owners whose wish stands in themselves.
fn well_known(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "ReplicationController") => Some("replicationcontrollers"),
        ("apps", "ReplicaSet") => Some("replicasets"),
        ("apps", "StatefulSet") => Some("statefulsets"),
        _ => None,
    }
}
