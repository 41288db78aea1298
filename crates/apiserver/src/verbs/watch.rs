//! WATCH: a stream of events. It ends when the client closes it, at its timeout, after compaction of events that it has
//! not sent, at shutdown of the server, and when the kind is deleted or changes.
//!
//! A watcher buffers at most [`READY_BYTES`] and one event, which are counted (`flow::unread`). The server stops
//! writing to a watcher whose client does not read, and the watcher falls behind in the store. It ends when its client
//! reads nothing for too long, when the client's user leaves too much unread, or when events that it has not sent are
//! compacted. An idle watcher takes some 2 800 bytes beside its connection (resident memory of 20 000 of them), and
//! more for a custom kind, since it also watches the definition of the kind.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use coracle_meta::selector::fields;
use coracle_registry::lifecycle::{
    ListOptions, ObjectEvent, ObjectState, ObjectWatch, Selection, WatchOptions,
};
use coracle_registry::{Entry, Error, Revision};
use futures_util::{FutureExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::ResourceRequest;
use super::pace::Pace;
use crate::body::{LongRunning, ResponseBody};
use crate::flow::Charge;
use crate::metrics::WatchedResource;
use crate::negotiate::{EventType, Framing, respond};
use crate::options::{ListQuery, revision_number, unexplained};
use crate::service::Shared;
use crate::status::Refusal;
use crate::websocket::{self, Handshake, MessageType, Upgrade};

/// Shortest duration of a watch without `timeoutSeconds`. The longest is twice as long, so that watches that begin
/// together do not end together.
const DEFAULT_LENGTH_S: u64 = 1800;

/// Interval of bookmarks for clients that allow them.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Bytes of events that are gathered into one write: a few TLS records, so that a burst takes few system calls and a
/// watcher little memory.
const READY_BYTES: usize = 64 * 1024;

/// Size of the length that precedes each event in a protobuf stream (`LengthDelimitedFramer` of k8s.io/apimachinery).
const LENGTH_BYTES: usize = 4;

impl ResourceRequest {
    pub(super) async fn watch(self) -> Result<Response<ResponseBody>, Refusal> {
        if self.components.shutdown.is_cancelled() {
            return Err(Refusal::shutting_down());
        }
        let format = self.response_format()?.of_stream()?;
        let query = self.query.list_query(true)?;
        let selection = self.watch_selection()?;
        let revision = revision_number(&query.resource_version).map_err(unexplained)?.map(Revision::new);
        let framing = Framing::new(self.kind.clone(), &self.path.version, format);
        let mut stream = WatchStream::new(&self, framing, &query);
        match self.state(&selection, &query, revision).await {
            Ok((state, after)) => {
                stream.state = state.into_iter();
                stream.state_ends = query.send_initial_events.filter(|told| *told).map(|_| after);
                let options = WatchOptions { selection, after };
                stream.watch = Some(self.begin_watch(options).await?);
            }
            // Sent as an ERROR event within the stream, not as the response.
            Err(error @ Error::TooLargeRevision { .. }) => stream.fail(error),
            Err(error) => return Err(error.into()),
        }
        let mut response = match stream.websocket {
            Some(messages) => {
                let handshake = Handshake::parse(&self.headers)?;
                let protocol = handshake.only_protocol()?;
                handshake.response(protocol, Upgrade { messages }, stream.into_body())
            }
            None => {
                let content_type = stream.framing.media_type();
                respond(Bytes::new(), content_type).map(|_| stream.into_body())
            }
        };
        response.extensions_mut().insert(LongRunning);
        Ok(response)
    }

    /// The message type if the client requests a WebSocket: text for JSON, as in kube-apiserver.
    fn websocket(&self, framing: &Framing) -> Option<MessageType> {
        let is_requested = self.is_upgradable && websocket::is_requested(&self.headers);
        is_requested.then(|| if framing.is_binary() { MessageType::Binary } else { MessageType::Text })
    }

    async fn begin_watch(&self, options: WatchOptions) -> Result<ObjectWatch, Refusal> {
        match &self.all_clusters {
            Some(registry) => self.watch_all_clusters(registry, options).await,
            None => Ok(self.cluster.watch(self.kind.clone(), &self.path.namespace, options).await?),
        }
    }

    /// The selection of the watch. A watch of one object selects it by `metadata.name`.
    fn watch_selection(&self) -> Result<Selection, Refusal> {
        let mut selection = self.query.selection(&*self.kind, &self.path.version)?;
        let name = &*self.path.name;
        if name.is_empty() {
            return Ok(selection);
        }
        if selection.fields.is_everything() {
            selection.fields = fields::Selector::equals("metadata.name", name);
        } else if selection.fields.requires_exact_match("metadata.name") != Some(name) {
            return Err(Refusal::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(selection)
    }

    /// Returns the current objects, if they are to be sent as initial events, and the revision after which events
    /// begin.
    async fn state(
        &self,
        selection: &Selection,
        query: &ListQuery,
        revision: Option<Revision>,
    ) -> Result<(Vec<Entry>, Revision), Error> {
        let told = query.send_initial_events.unwrap_or(false);
        if let (false, Some(revision)) = (told, revision) {
            return Ok((Vec::new(), revision));
        }
        let options =
            ListOptions { selection: selection.clone(), not_older_than: revision, ..ListOptions::default() };
        let page = self.cluster.list(&*self.kind, &self.path.namespace, &options).await?;
        self.note_list(&options, &page);
        Ok((if told { page.entries } else { Vec::new() }, page.revision))
    }
}

struct WatchStream {
    /// Objects that existed when the watch began and have not been sent yet.
    state: std::vec::IntoIter<Entry>,
    /// Revision of the bookmark that ends the initial events, until it is sent.
    state_ends: Option<Revision>,
    /// `None` once no more events follow.
    watch: Option<ObjectWatch>,
    framing: Framing,
    /// Set if each event is a message of a WebSocket.
    websocket: Option<MessageType>,
    shared: Arc<Shared>,
    resource: Arc<WatchedResource>,
    /// The scope of the request, for metrics.
    scope: &'static str,
    /// Seconds since the epoch when the watch began.
    now: i64,
    began: Instant,
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    /// An event that exceeds the unread bytes that the client's user may have at present.
    held: Option<Result<Option<ObjectEvent>, Error>>,
    /// Charges the ready bytes to the client's user until the client has read them.
    unread: Option<Charge>,
    bookmarks: bool,
    /// True once the watch is counted as terminated because its client does not read.
    is_terminated: bool,
    /// `None` within the process, where a write costs nothing.
    pace: Option<Pace>,
    until: Instant,
    /// Fires at the end or at the next bookmark, whichever comes first. Created once: a new timer costs more than
    /// sending an event.
    timer: Pin<Box<Sleep>>,
    shutdown: Shutdown,
}

/// The shutdown of the server and the deletion of the cluster, which end the watch.
struct Shutdown {
    token: CancellationToken,
    /// `None` for a watch of all clusters, or of a cluster that cannot be deleted.
    deletion: Option<CancellationToken>,
    /// Created once per watch, like the timer.
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Shutdown {
    fn new(token: &CancellationToken, deletion: Option<&CancellationToken>) -> Self {
        let (token, deletion) = (token.clone(), deletion.cloned());
        let cancelled: Pin<Box<dyn Future<Output = ()> + Send>> = match deletion.clone() {
            None => Box::pin(token.clone().cancelled_owned()),
            Some(deletion) => {
                let shutdown = token.clone();
                Box::pin(async move {
                    // Both branches are cancel safe.
                    tokio::select! {
                        () = shutdown.cancelled() => {}
                        () = deletion.cancelled() => {}
                    }
                })
            }
        };
        Self { token, deletion, cancelled }
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled() || self.deletion.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

/// Approximate size of an event in the response.
fn stored_bytes(event: &Result<Option<ObjectEvent>, Error>) -> usize {
    match event {
        Ok(Some(ObjectEvent::Added(state) | ObjectEvent::Modified(state) | ObjectEvent::Deleted(state))) => {
            state.entry().value_len()
        }
        _ => 0,
    }
}

async fn next_frame(mut stream: WatchStream) -> Option<(Result<Frame<Bytes>, Infallible>, WatchStream)> {
    // Events that are already framed are still sent: an event is never cut in two.
    if stream.shutdown.is_cancelled() {
        stream.watch = None;
    }
    stream.unread.iter().for_each(Charge::note_written);
    while stream.ready.is_empty() {
        stream.watch.as_ref()?;
        stream.tell_state().await;
        if stream.ready.is_empty() && stream.watch.is_some() {
            stream.wait().await;
            if let Some(pace) = &mut stream.pace {
                pace.due().await;
            }
        }
        stream.gather();
    }
    stream.pace.iter_mut().for_each(Pace::note_written);
    let frame = stream.take();
    let left = stream.ready_bytes;
    stream.unread.iter_mut().for_each(|unread| unread.set(left));
    Some((Ok(Frame::data(frame)), stream))
}

impl WatchStream {
    fn new(request: &ResourceRequest, framing: Framing, query: &ListQuery) -> Self {
        let began = Instant::now();
        let length = match query.timeout_seconds {
            Some(0) | None => {
                Duration::from_secs(DEFAULT_LENGTH_S + request.cluster.spread(DEFAULT_LENGTH_S))
            }
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        };
        let resource = request.shared.metrics.watched(&*request.kind, &request.path.version);
        let (until, bookmarks) = (began + length, query.allow_bookmarks);
        let deletion = request.cluster.deletion().filter(|_| request.all_clusters.is_none());
        let first = if bookmarks { until.min(began + BOOKMARK_EVERY) } else { until };
        Self {
            state: Vec::new().into_iter(),
            state_ends: None,
            watch: None,
            websocket: request.websocket(&framing),
            framing,
            shared: request.shared.clone(),
            resource,
            scope: if request.path.namespace.is_empty() { "cluster" } else { "namespace" },
            now: request.now,
            began,
            ready: VecDeque::new(),
            ready_bytes: 0,
            held: None,
            unread: request.unread.as_ref().map(|unread| unread.charge(0)),
            bookmarks,
            is_terminated: false,
            pace: request.is_remote.then(Pace::default),
            until,
            timer: Box::pin(sleep_until(first)),
            shutdown: Shutdown::new(&request.components.shutdown, deletion),
        }
    }

    fn into_body(self) -> ResponseBody {
        StreamBody::new(stream::unfold(self, next_frame)).boxed_unsync()
    }

    fn now(&self) -> i64 {
        self.now + i64::try_from(self.began.elapsed().as_secs()).unwrap_or(0)
    }

    /// Frames as many initial events as fit into one write.
    async fn tell_state(&mut self) {
        while self.ready_bytes < READY_BYTES {
            let Some(bytes) = self.state.as_slice().first().map(Entry::value_len) else {
                if let Some(revision) = self.state_ends.take() {
                    let (took, metrics) = (self.began.elapsed(), self.shared.metrics.server());
                    self.resource.note_state_sent(self.scope, took, metrics);
                    self.tell_bookmark(revision, true);
                }
                return;
            };
            // Events that are ready are sent first.
            if !self.ready.is_empty() && !self.has_room(bytes) || !self.room(bytes).await {
                return;
            }
            let Some(entry) = self.state.next() else { return };
            self.resource.count_initial(1, self.shared.metrics.server());
            let (now, before) = (self.now(), self.ready.len());
            let shared = self.shared.clone();
            let told = self.framing.initial(&shared.frames, &shared.messages, entry, now, &mut self.ready);
            self.note_told(before, told.is_ok());
        }
    }

    /// Whether the client's user may have this many more unread bytes.
    fn has_room(&self, bytes: usize) -> bool {
        self.unread.as_ref().is_none_or(|unread| unread.has_room(bytes))
    }

    /// Waits until the client's user may have this many more unread bytes. Ends the watch if that takes too long, or
    /// when the server shuts down.
    async fn room(&mut self, bytes: usize) -> bool {
        let Some(unread) = &self.unread else { return true };
        let has_room = unread.has_room(bytes)
            || tokio::select! {
                // Both branches are cancel safe.
                has_room = unread.room(bytes) => has_room,
                () = &mut self.shutdown.cancelled => false,
            };
        if !has_room {
            if !self.shutdown.is_cancelled() {
                self.count_terminated();
            }
            self.watch = None;
        }
        has_room
    }

    /// Counts the watch, at most once, as terminated because its client does not read.
    fn count_terminated(&mut self) {
        if !std::mem::replace(&mut self.is_terminated, true) {
            self.resource.count_terminated(self.shared.metrics.server());
        }
    }

    /// Adds events that are already available, so that they are sent in the same write.
    fn gather(&mut self) {
        while self.state.len() == 0
            && self.state_ends.is_none()
            && self.held.is_none()
            && self.ready_bytes < READY_BYTES
        {
            let Some(watch) = &mut self.watch else { return };
            let known = watch.try_next().map(|event| event.map(Some));
            let Some(event) = known.or_else(|| watch.next().now_or_never()) else { return };
            if self.has_room(stored_bytes(&event)) {
                self.take_in(event);
            } else {
                self.held = Some(event);
            }
        }
    }

    async fn wait(&mut self) {
        if self.held.is_none() {
            let Some(watch) = &mut self.watch else { return };
            // All branches are cancel safe: the watch keeps events that it has not returned.
            tokio::select! {
                // The timer comes first, so that a steady stream of events cannot starve it.
                biased;
                () = &mut self.timer => return self.time_is_up(),
                event = watch.next() => self.held = Some(event),
                () = &mut self.shutdown.cancelled => {
                    self.watch = None;
                    return;
                }
            }
        }
        let bytes = self.held.as_ref().map_or(0, stored_bytes);
        if self.room(bytes).await
            && let Some(event) = self.held.take()
        {
            self.take_in(event);
        }
    }

    fn time_is_up(&mut self) {
        let now = self.timer.deadline();
        let Some(watch) = self.watch.as_ref().filter(|_| now < self.until) else {
            self.watch = None;
            return;
        };
        watch.bookmarks().request();
        self.timer.as_mut().reset(self.until.min(now + BOOKMARK_EVERY));
    }

    fn take_in(&mut self, event: Result<Option<ObjectEvent>, Error>) {
        match event {
            Ok(Some(ObjectEvent::Added(state))) => self.tell(EventType::Added, &state),
            Ok(Some(ObjectEvent::Modified(state))) => self.tell(EventType::Modified, &state),
            Ok(Some(ObjectEvent::Deleted(state))) => self.tell(EventType::Deleted, &state),
            Ok(Some(ObjectEvent::Bookmark(revision))) => self.tell_bookmark(revision, false),
            Ok(None) => self.watch = None,
            Err(error) => self.fail(error),
        }
    }

    fn tell(&mut self, event: EventType, state: &ObjectState) {
        let now = self.now();
        let before = self.ready.len();
        let told = self.framing.event(&self.shared.frames, event, state, now, &mut self.ready);
        self.note_told(before, told.is_ok());
    }

    /// Counts the event whose frames begin at `before`, and ends the watch if it could not be framed.
    fn note_told(&mut self, before: usize, is_framed: bool) {
        self.make_message(before);
        let bytes: usize = self.ready.iter().skip(before).map(Bytes::len).sum();
        self.ready_bytes += bytes;
        let ready = self.ready_bytes;
        self.unread.iter_mut().for_each(|unread| unread.set(ready));
        self.resource.count_event(bytes, self.shared.metrics.server());
        if !is_framed {
            self.watch = None;
        }
    }

    /// Adds a bookmark of the revision, which at the end of the initial events has the annotation of their end.
    fn tell_bookmark(&mut self, revision: Revision, end_of_state: bool) {
        if !self.bookmarks {
            return;
        }
        match self.framing.bookmark(revision, end_of_state, self.now()) {
            Ok(frame) => self.push(frame),
            Err(_) => self.watch = None,
        }
    }

    fn fail(&mut self, error: Error) {
        self.watch = None;
        let frame = self.framing.error(Refusal::from(error).status());
        self.push(frame);
    }

    fn push(&mut self, frame: Bytes) {
        let before = self.ready.len();
        self.ready.push_back(frame);
        self.make_message(before);
        self.ready_bytes += self.ready.back().map_or(0, Bytes::len);
    }

    /// Joins the pieces of the last event, which begin at `first`, into one message if the watch uses a WebSocket.
    fn make_message(&mut self, first: usize) {
        let Some(messages) = self.websocket.filter(|_| first < self.ready.len()) else { return };
        let mut pieces = self.ready.split_off(first);
        let event = match pieces.len() {
            1 => pieces.pop_front().unwrap_or_default(),
            _ => concatenated(pieces),
        };
        // Skips the length that precedes each event of a protobuf stream: a WebSocket message has its own length.
        let skipped = if messages == MessageType::Binary { LENGTH_BYTES.min(event.len()) } else { 0 };
        self.ready.push_back(event.slice(skipped..));
    }

    /// Takes all ready frames in one piece. A single frame is shared and not copied.
    fn take(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.ready_bytes);
        let mut ready = std::mem::take(&mut self.ready);
        match ready.len() {
            1 => ready.pop_front().unwrap_or_default(),
            _ if bytes > 2 * READY_BYTES || self.websocket.is_some() => {
                // Large objects and WebSocket messages are returned one at a time.
                let first = ready.pop_front().unwrap_or_default();
                self.ready_bytes = bytes - first.len();
                self.ready = ready;
                first
            }
            _ => concatenated(ready),
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        // The connection drops the response if its client does not read.
        if self.unread.as_ref().is_some_and(Charge::is_ended) {
            self.count_terminated();
        }
    }
}

fn concatenated(pieces: VecDeque<Bytes>) -> Bytes {
    let bytes = pieces.iter().map(Bytes::len).sum();
    let mut all = BytesMut::with_capacity(bytes);
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}
