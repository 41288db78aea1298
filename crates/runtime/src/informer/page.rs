//! Decoding of list responses.

use kube::Client;
use serde::Deserialize;

use super::view::View;
use crate::key::{ClusterId, ObjectKey};
use crate::response;

/// A list of objects, or a page of it.
#[derive(Debug)]
pub struct Listed<V> {
    /// The objects. Bootstrap objects, which all clusters share, are under `ClusterId::all_clusters`.
    pub objects: Vec<(ObjectKey, V)>,
    /// Bootstrap objects that single clusters have deleted.
    pub hidden: Vec<ObjectKey>,
}

impl<V> Default for Listed<V> {
    fn default() -> Self {
        Self { objects: Vec::new(), hidden: Vec::new() }
    }
}

impl<V> Listed<V> {
    pub(super) fn one(key: ObjectKey, object: V) -> Self {
        Self { objects: vec![(key, object)], hidden: Vec::new() }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.objects.extend(more.objects);
        self.hidden.extend(more.hidden);
    }
}

/// One page of a list.
pub(super) struct Page<V> {
    pub(super) listed: Listed<V>,
    pub(super) resource_version: String,
    /// Empty on the last page.
    pub(super) continue_token: String,
}

impl<V: View> Page<V> {
    pub(super) async fn request(
        client: &Client,
        cluster: &ClusterId,
        request: http::Request<Vec<u8>>,
    ) -> kube::Result<Self> {
        if cluster == ClusterId::all_clusters() {
            return Ok(response::read::<AllClustersList<V>>(client, request).await?.into());
        }
        let ClusterList { metadata, items } = response::read::<ClusterList<V>>(client, request).await?;
        let objects = items.into_iter().map(|object| (key_of(cluster, &object), object)).collect();
        Ok(Self::new(metadata, Listed { objects, hidden: Vec::new() }))
    }

    fn new(metadata: Metadata, listed: Listed<V>) -> Self {
        Self { listed, resource_version: metadata.resource_version, continue_token: metadata.r#continue }
    }
}

pub(super) fn key_of<V: View>(cluster: &ClusterId, object: &V) -> ObjectKey {
    let metadata = object.metadata();
    ObjectKey::namespaced(cluster.clone(), &*metadata.namespace, &*metadata.name)
}

#[derive(Deserialize)]
#[serde(bound = "V: View")]
struct ClusterList<V> {
    #[serde(default)]
    metadata: Metadata,
    items: Vec<V>,
}

#[derive(Deserialize)]
#[serde(bound = "V: View")]
struct AllClustersList<V> {
    metadata: Metadata,
    hidden: Vec<Hidden>,
    items: Vec<Located<V>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
struct Hidden {
    cluster: Box<str>,
    /// `namespace/name`, or the name alone.
    place: Box<str>,
}

#[derive(Deserialize)]
struct Located<V> {
    cluster: Box<str>,
    object: V,
}

impl<V: View> From<AllClustersList<V>> for Page<V> {
    fn from(page: AllClustersList<V>) -> Self {
        // The objects of one cluster are adjacent, so that most of them share one id.
        let mut last = ClusterId::all_clusters().clone();
        let mut cluster = |id: Box<str>| {
            if last.as_str() != &*id {
                last = ClusterId::new(id);
            }
            last.clone()
        };
        let items = page.items.into_iter();
        let objects = items.map(|item| (key_of(&cluster(item.cluster), &item.object), item.object)).collect();
        let hidden = page.hidden.into_iter().map(|hidden| {
            let (namespace, name) = hidden.place.split_once('/').unwrap_or(("", &hidden.place));
            ObjectKey::namespaced(cluster(hidden.cluster), namespace, name)
        });
        let hidden = hidden.collect();
        Self::new(page.metadata, Listed { objects, hidden })
    }
}
