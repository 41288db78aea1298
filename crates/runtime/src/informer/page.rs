//! Lists, as they come in.

use kube::Client;
use serde::Deserialize;

use super::view::View;
use crate::key::{ClusterId, ObjectKey};
use crate::response;

/// What a list has told, or a page of it.
#[derive(Debug)]
pub struct Listed<V> {
    /// The objects. Those that every cluster begins with are in the cluster that stands for all.
    pub objects: Vec<(ObjectKey, V)>,
    /// What clusters have deleted of what all begin with.
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
        if cluster == ClusterId::everywhere() {
            return Ok(response::read::<OfAll<V>>(client, request).await?.into());
        }
        let OfOne { metadata, items } = response::read::<OfOne<V>>(client, request).await?;
        let objects = items.into_iter().map(|object| (key_of(cluster, &object), object)).collect();
        Ok(Self::new(metadata, Listed { objects, hidden: Vec::new() }))
    }

    fn new(metadata: Metadata, listed: Listed<V>) -> Self {
        Self { listed, resource_version: metadata.resource_version, continue_token: metadata.r#continue }
    }
}

/// What an object is known by.
pub(super) fn key_of<V: View>(cluster: &ClusterId, object: &V) -> ObjectKey {
    let metadata = object.metadata();
    ObjectKey::namespaced(cluster.clone(), &*metadata.namespace, &*metadata.name)
}

#[derive(Deserialize)]
#[serde(bound = "V: View")]
struct OfOne<V> {
    #[serde(default)]
    metadata: Metadata,
    items: Vec<V>,
}

#[derive(Deserialize)]
#[serde(bound = "V: View")]
struct OfAll<V> {
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

impl<V: View> From<OfAll<V>> for Page<V> {
    fn from(page: OfAll<V>) -> Self {
        // Objects of a cluster come together, so that most share one id.
        let mut last = ClusterId::everywhere().clone();
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
