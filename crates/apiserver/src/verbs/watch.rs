//! GET of changes: a stream that ends when the client, the clock or compaction ends it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use coracle_meta::table::{META_V1, PartialObjectMetadata};
use coracle_registry::Revision;
use coracle_registry::lifecycle::{ListOptions, ObjectEvent, ObjectWatch, Selection, WatchOptions};
use coracle_registry::{Error, Kind};
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::discovery::group_version;
use crate::negotiate::{self, Encoding, Shape, Wanted, respond, to_json, to_value};
use crate::status::Refusal;

/// How long a watch lasts when the client does not say.
const DEFAULT_LENGTH: Duration = Duration::from_secs(1800);

/// How often a client that wants bookmarks gets one while nothing happens.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

impl ResourceRequest {
    pub(super) async fn watch(self) -> Result<Response<ResponseBody>, Refusal> {
        let wanted = Wanted::of(&self.headers)?;
        let selection = self.watch_selection()?;
        let bookmarks = self.query.flag("allowWatchBookmarks")?;
        let initial = self.query.optional_flag("sendInitialEvents")?;
        if initial.is_some() && self.query.text("resourceVersionMatch") != "NotOlderThan" {
            return Err(Refusal::bad_request(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        let revision = self.revision()?;
        let with_state = initial.unwrap_or(revision.is_none());
        let (state, after) = self.state(&selection, with_state, revision).await?;
        let options = WatchOptions { selection, after };
        let watch = self.cluster.watch(self.kind, &self.path.namespace, options).await?;
        let length = self.query.number("timeoutSeconds")?.map_or(DEFAULT_LENGTH, Duration::from_secs);
        let mut stream = WatchStream {
            watch,
            kind: self.kind,
            version: self.path.version.clone(),
            wanted,
            now: self.now,
            ready: VecDeque::new(),
            columns_told: false,
            bookmarks,
            until: Instant::now() + length,
            ended: false,
        };
        for object in state {
            stream.tell("ADDED", object);
        }
        if initial == Some(true) && bookmarks {
            stream.tell_bookmark(after, true);
        }
        let body = StreamBody::new(stream::unfold(stream, next_frame)).boxed_unsync();
        Ok(respond(Bytes::new(), "application/json").map(|_| body))
    }

    /// A watch of one object is a watch by its name.
    fn watch_selection(&self) -> Result<Selection, Refusal> {
        let mut selection = self.query.selection(self.kind)?;
        if !self.path.name.is_empty() {
            selection.fields =
                coracle_meta::selector::fields::Selector::equals("metadata.name", &*self.path.name);
        }
        Ok(selection)
    }

    /// What is there now, if it is to be told, and where changes begin.
    async fn state(
        &self,
        selection: &Selection,
        told: bool,
        revision: Option<Revision>,
    ) -> Result<(Vec<Bytes>, Revision), Refusal> {
        if let (false, Some(revision)) = (told, revision) {
            return Ok((Vec::new(), revision));
        }
        let options =
            ListOptions { selection: selection.clone(), not_older_than: revision, ..ListOptions::default() };
        let page = self.cluster.list(self.kind, &self.path.namespace, &options).await?;
        let objects =
            if told { page.entries.iter().map(coracle_registry::Entry::value).collect() } else { Vec::new() };
        Ok((objects, page.revision))
    }
}

struct WatchStream {
    watch: ObjectWatch<'static>,
    kind: &'static dyn Kind,
    version: String,
    wanted: Wanted,
    now: i64,
    ready: VecDeque<Bytes>,
    columns_told: bool,
    bookmarks: bool,
    until: Instant,
    ended: bool,
}

async fn next_frame(mut stream: WatchStream) -> Option<(Result<Frame<Bytes>, Infallible>, WatchStream)> {
    while stream.ready.is_empty() {
        if stream.ended {
            return None;
        }
        stream.wait().await;
    }
    let bytes = if stream.ready.len() == 1 {
        stream.ready.pop_front()?
    } else {
        // Several at once go out in one write.
        stream
            .ready
            .drain(..)
            .fold(Vec::new(), |mut all, line| {
                all.extend_from_slice(&line);
                all
            })
            .into()
    };
    Some((Ok(Frame::data(bytes)), stream))
}

impl WatchStream {
    async fn wait(&mut self) {
        let bookmarks = self.watch.bookmarks();
        // Every branch may be dropped: the watch keeps what it has not handed out.
        tokio::select! {
            event = self.watch.next() => match event {
                Ok(ObjectEvent::Added(object)) => self.tell("ADDED", object),
                Ok(ObjectEvent::Modified(object)) => self.tell("MODIFIED", object),
                Ok(ObjectEvent::Deleted(object)) => self.tell("DELETED", object),
                Ok(ObjectEvent::Bookmark(revision)) => self.tell_bookmark(revision, false),
                Err(error) => self.fail(error),
            },
            () = tokio::time::sleep_until(self.until) => self.ended = true,
            () = tokio::time::sleep(BOOKMARK_EVERY), if self.bookmarks => bookmarks.request(),
        }
    }

    fn fail(&mut self, error: Error) {
        self.ended = true;
        let refusal = Refusal::from(error);
        self.push(&json!({"type": "ERROR", "object": to_value(refusal.status())}));
    }

    fn tell(&mut self, event: &str, object: Bytes) {
        if self.wanted.shape == Shape::Object {
            let line = [b"{\"type\":\"", event.as_bytes(), b"\",\"object\":", &object, b"}\n"].concat();
            return self.ready.push_back(line.into());
        }
        match negotiate::tree(&object) {
            Ok(object) => {
                let shown = self.shown(&object);
                self.push(&json!({"type": event, "object": shown}));
            }
            Err(_) => self.ended = true,
        }
    }

    fn shown(&mut self, object: &Value) -> Value {
        if self.wanted.shape == Shape::Metadata {
            return to_value(&PartialObjectMetadata::of(object, META_V1));
        }
        let encoding =
            Encoding { kind: self.kind, version: &self.version, wanted: self.wanted, now: self.now };
        let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        let columns = !std::mem::replace(&mut self.columns_told, true);
        to_value(&negotiate::table(&encoding, std::slice::from_ref(object), &metadata, columns))
    }

    /// Tells how far the watch has come; at the end of the state with the mark of that.
    fn tell_bookmark(&mut self, revision: Revision, end_of_state: bool) {
        if !self.bookmarks {
            return;
        }
        let declaration = self.kind.declaration();
        let api_version = group_version(&declaration.group, &self.version);
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if end_of_state {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": declaration.kind, "apiVersion": api_version, "metadata": metadata});
        let object = if self.wanted.shape == Shape::Object { object } else { self.shown(&object) };
        self.push(&json!({"type": "BOOKMARK", "object": object}));
    }

    fn push(&mut self, event: &Value) {
        let mut line = to_json(event);
        line.push(b'\n');
        self.ready.push_back(line.into());
    }
}
