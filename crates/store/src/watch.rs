//! Watches: changes in order, without gaps or duplicates.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::watch;

use crate::engine::BoxFuture;
use crate::entry::Entry;
use crate::error::Result;
use crate::revision::Revision;
use crate::store::SCOPE_END;

/// A watch request.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    /// Only keys that start with this.
    pub prefix: Vec<u8>,
    /// Only keys that continue with this after one more segment, whatever that is. Watches the same part of every
    /// scope at once.
    pub beyond: Option<Vec<u8>>,
    /// The first revision to deliver; `None` for all changes from now on. A future revision is waited for.
    pub from: Option<Revision>,
}

impl WatchRequest {
    /// Watches keys with `prefix` from now on.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Watches keys with `prefix` in any scope, from now on.
    pub fn in_any_scope(prefix: impl Into<Vec<u8>>) -> Self {
        Self { beyond: Some(prefix.into()), ..Self::default() }
    }

    /// Starts with the changes of `revision`.
    #[must_use]
    pub fn from(mut self, revision: Revision) -> Self {
        self.from = Some(revision);
        self
    }
}

/// The keys that a watch matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) prefix: Box<[u8]>,
    /// The prefix after the variable segment.
    pub(crate) beyond: Option<Box<[u8]>>,
}

impl Pattern {
    pub(crate) fn of(request: &WatchRequest) -> Self {
        let beyond = request.beyond.as_deref().map(Box::from);
        Self { prefix: request.prefix.as_slice().into(), beyond }
    }

    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        match &self.beyond {
            None => key.starts_with(&self.prefix),
            Some(beyond) => beyond_segment(key, &self.prefix).is_some_and(|rest| rest.starts_with(beyond)),
        }
    }
}

/// The part of a key after `prefix` and one more segment.
pub(crate) fn beyond_segment<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = key.strip_prefix(prefix)?;
    let end = rest.iter().position(|byte| *byte == SCOPE_END)?;
    Some(&rest[end + 1..])
}

/// A change of a key, or progress.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// A key was written.
    Put {
        /// The new entry.
        entry: Entry,
        /// The previous entry, if the key existed.
        previous: Option<Entry>,
    },
    /// A key was deleted.
    Delete {
        /// The key, relative to the scope.
        key: Bytes,
        /// The revision of the deletion.
        revision: Revision,
        /// The previous entry. Missing only if etcd has compacted it.
        previous: Option<Entry>,
    },
    /// Every change up to this revision has been delivered.
    Progress {
        /// The revision.
        revision: Revision,
    },
}

impl WatchEvent {
    /// The key that changed; none for progress.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            WatchEvent::Put { entry, .. } => Some(entry.key()),
            WatchEvent::Delete { key, .. } => Some(key),
            WatchEvent::Progress { .. } => None,
        }
    }

    /// The revision this event belongs to.
    pub fn revision(&self) -> Revision {
        match self {
            WatchEvent::Put { entry, .. } => entry.mod_revision(),
            WatchEvent::Delete { revision, .. } | WatchEvent::Progress { revision } => *revision,
        }
    }

    /// The event with keys relative to a scope; `scope_len` is the length of the scope's prefix.
    #[must_use]
    pub fn in_scope(self, scope_len: usize) -> Self {
        match self {
            WatchEvent::Put { entry, previous } => WatchEvent::Put {
                entry: entry.in_scope(scope_len),
                previous: previous.map(|entry| entry.in_scope(scope_len)),
            },
            WatchEvent::Delete { key, revision, previous } => WatchEvent::Delete {
                key: key.slice(scope_len..),
                revision,
                previous: previous.map(|entry| entry.in_scope(scope_len)),
            },
            progress @ WatchEvent::Progress { .. } => progress,
        }
    }
}

/// The source of a watch's events, implemented by engines.
pub trait WatchSource: Send {
    /// Returns the next event. The future must be safe to drop, and calls after the first error must fail too.
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>>;

    /// Returns the next event if it is available without I/O. Cheaper than [`Self::next`] for callers that take many
    /// events at once; `None` does not mean that there is none.
    fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        None
    }
}

/// A running watch. Dropping it ends it.
pub struct Watch {
    source: Box<dyn WatchSource>,
    progress: ProgressHandle,
    scope_len: usize,
}

impl Watch {
    /// Wraps an engine's source. `progress` passes progress requests to the source.
    pub fn new(source: Box<dyn WatchSource>, progress: ProgressHandle) -> Self {
        Self { source, progress, scope_len: 0 }
    }

    pub(crate) fn in_scope(mut self, scope_len: usize) -> Self {
        // Scopes can be nested.
        self.scope_len += scope_len;
        self
    }

    /// Waits for the next event. Safe to drop before it is ready.
    ///
    /// Slow watchers are not waited for: once compaction has passed a watcher's position, this returns
    /// [`crate::Error::Compacted`], and the watch has ended.
    pub async fn next(&mut self) -> Result<WatchEvent> {
        let event = self.source.next().await?;
        Ok(event.in_scope(self.scope_len))
    }

    /// Returns the next event if it is known to be available. Otherwise [`Self::next`] may still return one
    /// immediately.
    pub fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        let event = self.source.try_next()?;
        Some(event.map(|event| event.in_scope(self.scope_len)))
    }

    /// Returns the next event if it has arrived, on every engine: polls [`Self::next`] once without waiting.
    pub fn next_arrived(&mut self) -> Option<Result<WatchEvent>> {
        let mut context = Context::from_waker(Waker::noop());
        // Unconstrained, because an exhausted task budget would hide events that have arrived.
        match pin!(tokio::task::unconstrained(self.next())).poll(&mut context) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    /// A handle to request progress from elsewhere.
    pub fn progress_handle(&self) -> ProgressHandle {
        self.progress.clone()
    }
}

/// Requests progress from a watch.
#[derive(Clone, Debug)]
pub struct ProgressHandle {
    requests: watch::Sender<u64>,
}

impl ProgressHandle {
    /// Creates a handle and the receiver with which the engine observes its requests.
    pub fn new() -> (Self, watch::Receiver<u64>) {
        let (requests, receiver) = watch::channel(0);
        (Self { requests }, receiver)
    }

    /// Requests a [`WatchEvent::Progress`] with a revision at least as high as the store's latest at this moment,
    /// delivered after all events up to it. Several requests may share one response.
    pub fn request(&self) {
        self.requests.send_modify(|count| *count += 1);
    }
}
