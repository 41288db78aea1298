//! Decoding of watch events.

use std::fmt;
use std::marker::PhantomData;

use coracle_base::deep_stack;
use coracle_meta::go_json;
use futures_util::{AsyncBufReadExt, Stream, TryStreamExt};
use kube::Client;
use kube::core::Status;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::page::key_of;
use super::view::View;
use crate::key::{ClusterId, ObjectKey};

/// A watch event.
pub(super) enum Event<V> {
    /// An object was added or modified.
    Applied(ObjectKey, V),
    /// An object was deleted; this is its last state.
    Deleted(ObjectKey, V),
    /// An object was deleted with its cluster; this is its last state.
    DeletedWithCluster(ObjectKey, V),
    /// All changes up to this revision have been delivered.
    Bookmark(String),
    /// The bookmark after the initial events: all objects as of this revision have been delivered.
    InitialEventsEnd(String),
    /// The watch ends.
    Error(Box<Status>),
}

/// Opens a watch of a cluster, or of all clusters.
pub(super) async fn stream<V: View>(
    client: &Client,
    cluster: &ClusterId,
    request: http::Request<Vec<u8>>,
) -> kube::Result<impl Stream<Item = kube::Result<Event<V>>> + use<V>> {
    let lines = client.request_stream(request).await?.lines();
    let cluster = cluster.clone();
    Ok(lines.map_err(kube::Error::ReadEvents).try_filter_map(move |line| {
        let event = if line.is_empty() { Ok(None) } else { decode(&cluster, &line).map(Some) };
        std::future::ready(event.map_err(kube::Error::SerdeError))
    }))
}

fn decode<V: View>(cluster: &ClusterId, line: &str) -> serde_json::Result<Event<V>> {
    let read = |known| deep_stack::run(|| go_json::read_text(line, |from| read_line(known, from)));
    let mut found = read(None)?;
    if found.content.is_none() {
        // The object came before its type, which is known now.
        found = read(found.kind)?;
    }
    let cluster = found.cluster.map_or_else(|| cluster.clone(), ClusterId::new);
    let content = found.content.ok_or_else(|| serde_json::Error::missing_field("object"))?;
    Ok(match content {
        Content::Bookmark(Bookmark { metadata }) => match metadata.annotations.initial_events_end {
            Some(_) => Event::InitialEventsEnd(metadata.resource_version),
            None => Event::Bookmark(metadata.resource_version),
        },
        Content::Error(status) => Event::Error(status),
        Content::Applied(object) => Event::Applied(key_of(&cluster, &object), object),
        Content::Deleted(object) if found.cluster_deleted => {
            Event::DeletedWithCluster(key_of(&cluster, &object), object)
        }
        Content::Deleted(object) => Event::Deleted(key_of(&cluster, &object), object),
    })
}

/// The decoded fields of one line of a watch.
struct WatchLine<V> {
    kind: Option<Type>,
    /// Sent only by a watch of all clusters.
    cluster: Option<Box<str>>,
    /// Sent only by a watch of all clusters, for bootstrap objects.
    cluster_deleted: bool,
    content: Option<Content<V>>,
}

enum Content<V> {
    Applied(V),
    Deleted(V),
    Bookmark(Bookmark),
    Error(Box<Status>),
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: BookmarkAnnotations,
}

#[derive(Default, Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<IgnoredAny>,
}

/// The `type` of an event, which determines the type of its object.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Type {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl<'de, V: View> DeserializeSeed<'de> for TypeSeed<V> {
    type Value = Content<V>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Content<V>, D::Error> {
        match self.0 {
            Type::Added | Type::Modified => V::deserialize(from).map(Content::Applied),
            Type::Deleted => V::deserialize(from).map(Content::Deleted),
            Type::Bookmark => Bookmark::deserialize(from).map(Content::Bookmark),
            Type::Error => Box::deserialize(from).map(Content::Error),
        }
    }
}

struct TypeSeed<V>(Type, PhantomData<V>);

/// Decodes a line in one pass if `type` precedes `object`, as all servers write it, or is passed in.
fn read_line<'de, V: View, D: Deserializer<'de>>(
    known: Option<Type>,
    from: D,
) -> Result<WatchLine<V>, D::Error> {
    from.deserialize_map(LineVisitor(known, PhantomData))
}

struct LineVisitor<V>(Option<Type>, PhantomData<V>);

impl<'de, V: View> Visitor<'de> for LineVisitor<V> {
    type Value = WatchLine<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WatchLine<V>, A::Error> {
        let mut found = WatchLine { kind: self.0, cluster: None, cluster_deleted: false, content: None };
        while let Some(name) = map.next_key::<&str>()? {
            match (name, found.kind) {
                ("type", _) => found.kind = Some(map.next_value()?),
                ("cluster", _) => found.cluster = map.next_value()?,
                ("clusterDeleted", _) => found.cluster_deleted = map.next_value()?,
                ("object", Some(kind)) => {
                    found.content = Some(map.next_value_seed(TypeSeed(kind, PhantomData))?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::MetadataOnly;
    use super::*;

    fn describe(line: &str) -> String {
        match decode::<MetadataOnly>(&ClusterId::default(), line).unwrap() {
            Event::Applied(key, object) => format!("{key} is there at {}", object.metadata.resource_version),
            Event::Deleted(key, _) => format!("{key} is gone"),
            Event::DeletedWithCluster(key, _) => format!("{key} is gone with its cluster"),
            Event::Bookmark(revision) => format!("up to {revision}"),
            Event::InitialEventsEnd(revision) => format!("all at {revision}"),
            Event::Error(status) => format!("error {}", status.code),
        }
    }

    #[test]
    fn watch_lines_decode_to_events() {
        let object = r#"{"metadata":{"name":"n","namespace":"ns","resourceVersion":"7"}}"#;
        assert_eq!(describe(&format!(r#"{{"type":"ADDED","object":{object}}}"#)), "ns/n is there at 7");
        let line = format!(r#"{{"type":"DELETED","cluster":"blue","object":{object}}}"#);
        assert_eq!(describe(&line), "blue:ns/n is gone");
        let line =
            format!(r#"{{"type":"DELETED","cluster":"blue","clusterDeleted":true,"object":{object}}}"#);
        assert_eq!(describe(&line), "blue:ns/n is gone with its cluster");
        assert_eq!(
            describe(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#),
            "up to 9"
        );
        let end = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
        let line =
            format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"9",{end}}}}}}}"#);
        assert_eq!(describe(&line), "all at 9");
        assert_eq!(describe(r#"{"object":{"code":410,"kind":"Status"},"type":"ERROR"}"#), "error 410");
        assert!(decode::<MetadataOnly>(&ClusterId::default(), "{").is_err());
    }
}
