//! Encoding of watch events.
//!
//! Each event is encoded once per format and the frame is shared by all watchers with that format. Small frames are in
//! one piece. A large object is not copied: its stored bytes are sent between a head and a tail.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use coracle_api::codec::protobuf::{self, TextEncoder};
use coracle_meta::status::Status;
use coracle_meta::table::IncludeObject;
use coracle_registry::encode::inner;
use coracle_registry::lifecycle::{Object, ObjectState};
use coracle_registry::{Entry, KindRef, Revision};
use serde_json::json;

use super::accept::{Form, ResponseFormat, Shape};
use super::encode::{Encoding, is_served_as_stored, shown};
use super::messages::MessageCache;
use super::respond::{to_json, to_value, written};
use crate::discovery::group_version;
use crate::status::Refusal;

/// Number of cached frames. All watchers of an event request its frame within moments, so more are useful only while
/// many events occur at once.
const CACHED_FRAMES: usize = 256;

/// Largest cached frame. Larger ones are encoded for each watcher, so that the cache never exceeds 8 MiB.
const MAX_CACHED_FRAME_BYTES: usize = 32 * 1024;

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }

    /// The JSON before the object.
    fn json_head(self) -> &'static [u8] {
        match self {
            EventType::Added => b"{\"type\":\"ADDED\",\"object\":",
            EventType::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            EventType::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

/// Encoder of the events of one watcher.
pub(crate) struct Framing {
    pub(crate) kind: KindRef,
    pub(crate) version: Box<str>,
    pub(crate) format: ResponseFormat,
    columns_told: bool,
}

impl Framing {
    pub(crate) fn new(kind: KindRef, version: &str, format: ResponseFormat) -> Self {
        Self { kind, version: version.into(), format, columns_told: false }
    }

    /// The media type of the stream.
    pub(crate) fn media_type(&self) -> &'static str {
        match self.format.form {
            Form::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => Form::Json.media_type(),
        }
    }

    /// Whether events are binary, not text.
    pub(crate) fn is_binary(&self) -> bool {
        self.format.form == Form::Protobuf
    }

    /// Appends the frame of an event; `now` is in seconds since the epoch.
    pub(crate) fn event(
        &mut self,
        cache: &FrameCache,
        event: EventType,
        state: &ObjectState,
        now: i64,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), Refusal> {
        let (entry, written_at) = (state.entry(), state.entry().mod_revision());
        if let Some(cluster) = state.cluster() {
            // A single client watches all clusters, so the frame is not cached.
            let object = Object { json: state.json(), revision: written_at };
            let (_, object) = shown(&self.encoding(self.format, now), &object, false)?;
            let deleted = if state.is_cluster_deleted() { "\"clusterDeleted\":true," } else { "" };
            let name = event.name();
            let head = format!("{{\"type\":\"{name}\",\"cluster\":{},{deleted}\"object\":", json!(cluster));
            out.push_back([head.as_bytes(), inner(&object), b"}\n"].concat().into());
            return Ok(());
        }
        // The size is checked first: most objects are small, and the other checks would run once for each watcher.
        if entry.value_len() > MAX_CACHED_FRAME_BYTES
            && self.format.form == Form::Json
            && self.format.shape == Shape::Object
            && is_served_as_stored(&*self.kind, &self.version, &entry.value_bytes(), written_at)
        {
            let json = state.json();
            let length = inner(&json).len();
            out.extend([
                Bytes::from_static(event.json_head()),
                json.slice(..length),
                Bytes::from_static(b"}\n"),
            ]);
            return Ok(());
        }
        // The column definitions are sent with the first event only.
        let columns = self.format.shape == Shape::Table && !std::mem::replace(&mut self.columns_told, true);
        let id = FrameId {
            revision: state.revision(),
            event,
            format: self.format,
            columns,
            declaration: std::ptr::from_ref(self.kind.declaration()) as usize,
        };
        let frame = cache.get_or_make(&id, &self.version, &self.kind, entry, || {
            self.frame(event, &Object { json: state.json(), revision: written_at }, now, columns)
        })?;
        out.push_back(frame);
        Ok(())
    }

    /// Appends the frame of an object that existed when the watch began.
    pub(crate) fn initial(
        &mut self,
        frames: &FrameCache,
        messages: &MessageCache,
        entry: Entry,
        now: i64,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), Refusal> {
        if let (Form::Protobuf, Shape::Object) = (self.format.form, self.format.shape)
            && let Some(id) = self.kind.type_id(&self.version)
        {
            let json = entry.value_bytes();
            if is_served_as_stored(&*self.kind, &self.version, &json, entry.mod_revision()) {
                let message = messages.get_or_encode(&mut TextEncoder::default(), &entry, &json, id)?;
                let type_meta = self.encoding(self.format, now).type_meta();
                let mut frame = Vec::new();
                protobuf::begin_event(&mut frame, EventType::Added.name(), &type_meta, message.len());
                message.append(&json, &mut frame)?;
                frame.extend_from_slice(protobuf::END_OF_ENVELOPE);
                out.push_back(frame.into());
                return Ok(());
            }
        }
        self.event(frames, EventType::Added, &ObjectState::of(entry), now, out)
    }

    fn frame(&self, event: EventType, object: &Object, now: i64, columns: bool) -> Result<Bytes, Refusal> {
        let (form, object) = shown(&self.encoding(self.format, now), object, columns)?;
        Ok(match form {
            Form::Protobuf => protobuf::watch_frame(event.name(), &object).into(),
            _ => [event.json_head(), inner(&object), b"}\n"].concat().into(),
        })
    }

    fn encoding(&self, format: ResponseFormat, now: i64) -> Encoding<'_> {
        Encoding { kind: &self.kind, version: &self.version, format, now }
    }

    /// Encodes a bookmark of the revision, with the `k8s.io/initial-events-end` annotation at the end of the initial
    /// events.
    pub(crate) fn bookmark(
        &mut self,
        revision: Revision,
        end_of_state: bool,
        now: i64,
    ) -> Result<Bytes, Refusal> {
        let declaration = self.kind.declaration();
        let api_version = group_version(&declaration.group, &self.version);
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end_of_state {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": declaration.kind, "apiVersion": api_version, "metadata": metadata});
        let columns = self.format.shape == Shape::Table && !std::mem::replace(&mut self.columns_told, true);
        // The annotation must be sent even if the client requests no objects in the rows.
        let include = match self.format.include {
            IncludeObject::None if end_of_state => IncludeObject::Metadata,
            include => include,
        };
        let encoding = self.encoding(ResponseFormat { include, ..self.format }, now);
        let object = Object { json: to_json(&object).into(), revision };
        let (form, object) = shown(&encoding, &object, columns)?;
        Ok(match form {
            Form::Protobuf => protobuf::watch_frame("BOOKMARK", &object).into(),
            _ => [b"{\"type\":\"BOOKMARK\",\"object\":", inner(&object), b"}\n"].concat().into(),
        })
    }

    /// Encodes the error that ends the watch.
    pub(crate) fn error(&self, status: &Status) -> Bytes {
        match self.format.form {
            Form::Protobuf => {
                let object = written(Form::Protobuf, &to_value(status), "", "v1", "Status");
                protobuf::watch_frame("ERROR", &object).into()
            }
            _ => [&b"{\"type\":\"ERROR\",\"object\":"[..], &to_json(status), b"}\n"].concat().into(),
        }
    }
}

/// Identifies a frame, except for its object and API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameId {
    revision: Revision,
    event: EventType,
    format: ResponseFormat,
    columns: bool,
    /// Address of the kind's declaration: one entry may be served as objects of two kinds.
    declaration: usize,
}

impl FrameId {
    fn slot(&self) -> usize {
        let form = self.format.form as usize * 8 + self.format.shape as usize * 2 + usize::from(self.columns);
        (self.revision.get() as usize).wrapping_add(form.wrapping_mul(61)) % CACHED_FRAMES
    }
}

/// A cached frame with its source. It holds the entry, so that no other entry can have the same address.
struct Cached {
    id: FrameId,
    version: Box<str>,
    /// Keeps the declaration alive, so that its address stays unique.
    _kind: KindRef,
    entry: Entry,
    frame: Bytes,
}

/// Cache of the frames of the latest events, shared by all watchers of a server.
pub(crate) struct FrameCache {
    slots: Box<[Mutex<Option<Cached>>]>,
}

impl Default for FrameCache {
    fn default() -> Self {
        Self { slots: std::iter::repeat_with(Mutex::default).take(CACHED_FRAMES).collect() }
    }
}

impl FrameCache {
    fn get_or_make(
        &self,
        id: &FrameId,
        version: &str,
        kind: &KindRef,
        entry: &Entry,
        make: impl FnOnce() -> Result<Bytes, Refusal>,
    ) -> Result<Bytes, Refusal> {
        let slot = &self.slots[id.slot()];
        if let Some(cached) = &*slot.lock().unwrap_or_else(PoisonError::into_inner)
            && cached.id == *id
            && *cached.version == *version
            && cached.entry.is_same(entry)
        {
            return Ok(cached.frame.clone());
        }
        // Encoded without the lock: two watchers may encode the same frame at once, and either result is valid.
        let frame = make()?;
        if frame.len() <= MAX_CACHED_FRAME_BYTES {
            let cached = Cached {
                id: *id,
                version: version.into(),
                _kind: kind.clone(),
                entry: entry.clone(),
                frame: frame.clone(),
            };
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(cached);
        }
        Ok(frame)
    }
}
