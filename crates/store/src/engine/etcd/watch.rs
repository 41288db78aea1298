//! Watches on etcd itself: for history that the mirror does not have, and while the mirror is missing.
//!
//! Each watch is a task that follows etcd (`follow`) and passes events through a short queue.

use std::sync::Arc;

use bytes::Bytes;
use coracle_base::Task;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::cluster::Cluster;
use super::failure::Failure;
use super::follow::{End, Follower, Sink, Stop, revision_of};
use super::proto::{Event, WatchCreateRequest};
use super::value;
use crate::engine::BoxFuture;
use crate::error::Result;
use crate::revision::Revision;
use crate::watch::{Pattern, ProgressHandle, Watch, WatchEvent, WatchRequest, WatchSource};

/// Events read ahead of the reader. When the queue is full, nothing more is read, and etcd keeps the rest until the
/// reader continues or compaction passes it.
const MAX_READ_AHEAD: usize = 128;

/// Starts a watch from a revision on; returns when etcd has confirmed it.
pub(super) async fn start(
    cluster: Arc<Cluster>,
    watches: &TaskTracker,
    request: WatchRequest,
    first: Revision,
) -> Result<Watch> {
    cluster.check_kept(first).await?;
    let create = WatchCreateRequest {
        key: cluster.keyspace.full_key(&request.prefix),
        range_end: cluster.keyspace.prefix_end(&request.prefix),
        start_revision: i64::try_from(first.get()).unwrap_or(i64::MAX),
        prev_kv: true,
    };
    let (handle, requests) = ProgressHandle::new();
    let (sender, events) = mpsc::channel(MAX_READ_AHEAD);
    let queue = Queue { cluster: cluster.clone(), pattern: Pattern::of(&request), events: sender };
    let counted = cluster.watchers.clone();
    let follower = Follower::open(cluster, create, requests, queue).await;
    let follower = follower.map_err(Failure::into_read_error)?;
    let task = Task::spawn("etcd-watch", watches.track_future(run(follower)));
    Ok(Watch::new(Box::new(EtcdWatch { events, end: None, _counted: counted, _task: task }), handle))
}

async fn run(mut follower: Follower<Queue>) {
    // The closed queue notifies the reader if the engine is closed.
    if let Some(end) = follower.run().await {
        let _ = follower.sink.events.send(Err(end)).await;
    }
}

/// The reader's end of a watch.
struct EtcdWatch {
    events: mpsc::Receiver<Result<WatchEvent, End>>,
    end: Option<End>,
    _counted: Arc<()>,
    /// Dropped with the watch, which ends it.
    _task: Task<()>,
}

impl WatchSource for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<WatchEvent>> {
        Box::pin(async move {
            if let Some(end) = &self.end {
                return Err(end.error());
            }
            // Safe to drop: an event leaves the queue only when it is returned.
            match self.events.recv().await {
                Some(Ok(event)) => Ok(event),
                Some(Err(end)) => Err(self.end.insert(end).error()),
                None => Err(self.end.insert(End::Closed).error()),
            }
        })
    }
}

/// The follower's end of a watch.
struct Queue {
    cluster: Arc<Cluster>,
    /// The keys that the reader watches, a part of those that etcd sends.
    pattern: Pattern,
    events: mpsc::Sender<Result<WatchEvent, End>>,
}

impl Sink for Queue {
    async fn take(&mut self, events: &[Event]) -> Result<(), Stop> {
        for event in events {
            let event = self.decoded(event).map_err(|error| Stop::Ended(End::Refused(error.to_string())))?;
            if event.key().is_some_and(|key| self.pattern.matches(key)) {
                self.deliver(event).await?;
            }
        }
        Ok(())
    }

    async fn reached(&mut self, revision: Revision, was_requested: bool) -> Result<(), Stop> {
        if !was_requested {
            return Ok(());
        }
        self.deliver(WatchEvent::Progress { revision }).await
    }
}

impl Queue {
    async fn deliver(&mut self, event: WatchEvent) -> Result<(), Stop> {
        self.events.send(Ok(event)).await.map_err(|_| Stop::Abandoned)
    }

    fn decoded(&self, event: &Event) -> Result<WatchEvent> {
        let previous = event.prev_kv.as_ref().map(|kv| self.cluster.entry(kv)).transpose()?;
        let kv = event.kv.clone().unwrap_or_default();
        if !event.is_delete() {
            return Ok(WatchEvent::Put { entry: self.cluster.entry(&kv)?, previous });
        }
        // Copied, because a reader that keeps the key would otherwise keep the whole response alive.
        let key = Bytes::copy_from_slice(&self.cluster.keyspace.strip(&kv.key)?);
        Ok(WatchEvent::Delete { key, revision: value::to_revision(revision_of(event)), previous })
    }
}
