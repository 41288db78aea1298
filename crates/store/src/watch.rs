//! Changes as they happen, in order, without gap or duplicate.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::watch;

use crate::engine::BoxFuture;
use crate::entry::Entry;
use crate::error::Result;
use crate::revision::Revision;
use crate::store::SCOPE_END;

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    /// Only keys that start with this.
    pub prefix: Vec<u8>,
    /// Only keys that go on, after one more segment whatever it is, with this. For whoever watches the
    /// same part of every scope at once.
    pub beyond: Option<Vec<u8>>,
    /// The first revision to deliver; `None`: whatever comes after now. A revision in the
    /// future is waited for.
    pub from: Option<Revision>,
}

impl WatchRequest {
    /// Changes of keys under `prefix` from now on.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Changes of keys under `prefix` in any scope, from now on.
    pub fn in_any_scope(prefix: impl Into<Vec<u8>>) -> Self {
        Self { beyond: Some(prefix.into()), ..Self::default() }
    }

    /// Beginning with the changes made at `revision`.
    #[must_use]
    pub fn from(mut self, revision: Revision) -> Self {
        self.from = Some(revision);
        self
    }
}

/// Which keys a watch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) prefix: Box<[u8]>,
    /// What follows the segment after the prefix.
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

/// What a key that starts with `prefix` goes on with after one more segment.
pub(crate) fn beyond_segment<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = key.strip_prefix(prefix)?;
    let end = rest.iter().position(|byte| *byte == SCOPE_END)?;
    Some(&rest[end + 1..])
}

/// One change, or news of none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchEvent {
    /// A key was written.
    Put {
        /// What it is now.
        entry: Entry,
        /// What it was, if it existed.
        previous: Option<Entry>,
    },
    /// A key was deleted.
    Delete {
        /// The key, relative to the scope.
        key: Bytes,
        /// The revision of the deletion.
        revision: Revision,
        /// What it was. Missing only where etcd has compacted it away.
        previous: Option<Entry>,
    },
    /// Every change up to this revision has been delivered.
    Progress {
        /// The revision.
        revision: Revision,
    },
}

impl WatchEvent {
    /// The key that changed; none of news of no change.
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

    /// The same, with keys that are relative to a scope; `scope_len` is what its name takes of them.
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

/// Where an engine's watch gets its events from.
pub trait WatchSource: Send {
    /// The next event. Must be safe to drop before it is ready, and goes on failing after
    /// its first error.
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>>;

    /// The next event, if it is known without asking anybody that it is there. Cheaper than [`Self::next`] for whoever
    /// takes many at once; none says nothing.
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
    /// Wraps an engine's source. `progress` is where the source sees requests for progress.
    pub fn new(source: Box<dyn WatchSource>, progress: ProgressHandle) -> Self {
        Self { source, progress, scope_len: 0 }
    }

    pub(crate) fn in_scope(mut self, scope_len: usize) -> Self {
        // One scope may lie within another.
        self.scope_len += scope_len;
        self
    }

    /// Waits for the next event. Safe to drop before it is ready.
    ///
    /// A watcher that reads too slowly is not waited for: once compaction has passed what it
    /// has not read yet, this returns [`crate::Error::Compacted`], and the watch has ended.
    pub async fn next(&mut self) -> Result<WatchEvent> {
        let event = self.source.next().await?;
        Ok(event.in_scope(self.scope_len))
    }

    /// The next event, if it is known to be there. If it is not, [`Self::next`] may still have one at once.
    pub fn try_next(&mut self) -> Option<Result<WatchEvent>> {
        let event = self.source.try_next()?;
        Some(event.map(|event| event.in_scope(self.scope_len)))
    }

    /// The next event if it has arrived, on every engine: polls [`Self::next`] once and does not wait.
    pub fn next_arrived(&mut self) -> Option<Result<WatchEvent>> {
        let mut context = Context::from_waker(Waker::noop());
        // Unconstrained: the task's budget says nothing about the events that have arrived.
        match pin!(tokio::task::unconstrained(self.next())).poll(&mut context) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    /// For asking this watch for progress from elsewhere.
    pub fn progress_handle(&self) -> ProgressHandle {
        self.progress.clone()
    }
}

/// Asks a watch to report how far it has come.
#[derive(Clone, Debug)]
pub struct ProgressHandle {
    requests: watch::Sender<u64>,
}

impl ProgressHandle {
    /// A handle and the end at which the engine counts its requests.
    pub fn new() -> (Self, watch::Receiver<u64>) {
        let (requests, receiver) = watch::channel(0);
        (Self { requests }, receiver)
    }

    /// The watch will deliver a [`WatchEvent::Progress`] with a revision at least as high as
    /// the store's latest at this moment, after all events up to it. Several requests may
    /// share one answer.
    pub fn request(&self) {
        self.requests.send_modify(|count| *count += 1);
    }
}
