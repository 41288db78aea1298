//! Events of a watch, as they come in.

use futures_util::{AsyncBufReadExt, Stream, TryStreamExt};
use kube::Client;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::page::key_of;
use super::view::View;
use crate::key::{ClusterId, ObjectKey};

/// What a watch tells.
pub(super) enum Event<V> {
    /// An object is there, new or changed.
    There(ObjectKey, V),
    /// It is gone; this was its last state.
    Gone(ObjectKey, V),
    /// Everything up to this revision has been told.
    Bookmark(String),
    /// The watch ends.
    Error(Box<Status>),
}

/// Begins a watch of a cluster, or of all.
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

/// One line of a watch but for the object, which is decoded once it is known what it is.
#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    /// Told only by a watch of all clusters.
    #[serde(default)]
    cluster: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Content<T> {
    object: T,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
}

fn decode<V: View>(cluster: &ClusterId, line: &str) -> serde_json::Result<Event<V>> {
    let Line { r#type, cluster: told } = serde_json::from_str(line)?;
    let cluster = told.map_or_else(|| cluster.clone(), ClusterId::new);
    Ok(match r#type {
        "BOOKMARK" => Event::Bookmark(content::<Bookmark>(line)?.metadata.resource_version),
        "ERROR" => Event::Error(content(line)?),
        kind => {
            let object: V = content(line)?;
            let key = key_of(&cluster, &object);
            if kind == "DELETED" { Event::Gone(key, object) } else { Event::There(key, object) }
        }
    })
}

fn content<T: DeserializeOwned>(line: &str) -> serde_json::Result<T> {
    serde_json::from_str::<Content<T>>(line).map(|content| content.object)
}

#[cfg(test)]
mod tests {
    use super::super::view::MetadataOnly;
    use super::*;

    fn told(line: &str) -> String {
        match decode::<MetadataOnly>(&ClusterId::default(), line).unwrap() {
            Event::There(key, object) => format!("{key} is there at {}", object.metadata.resource_version),
            Event::Gone(key, _) => format!("{key} is gone"),
            Event::Bookmark(revision) => format!("up to {revision}"),
            Event::Error(status) => format!("error {}", status.code),
        }
    }

    #[test]
    fn lines_say_what_happened_and_where() {
        let object = r#"{"metadata":{"name":"n","namespace":"ns","resourceVersion":"7"}}"#;
        assert_eq!(told(&format!(r#"{{"type":"ADDED","object":{object}}}"#)), "ns/n is there at 7");
        let line = format!(r#"{{"type":"DELETED","cluster":"blue","object":{object}}}"#);
        assert_eq!(told(&line), "blue:ns/n is gone");
        assert_eq!(told(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#), "up to 9");
        assert_eq!(told(r#"{"object":{"code":410,"kind":"Status"},"type":"ERROR"}"#), "error 410");
        assert!(decode::<MetadataOnly>(&ClusterId::default(), "{").is_err());
    }
}
