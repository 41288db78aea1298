//! Watches that go on with another member when theirs is lost.
//!
//! Each watch is a task that follows one stream of etcd at a time, knows the next revision to
//! deliver, and hands events over a short queue. Etcd puts all events of one revision into
//! one response (fragments are not asked for), so that number is all there is to resume from.

use std::sync::Arc;

use bytes::Bytes;
use coracle_base::{Backoff, Task};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::client::Client;
use super::cluster::Cluster;
use super::failure::Failure;
use super::progress::{Progress, Wake};
use super::proto::{Event, WatchCreateRequest, WatchResponse};
use super::stream::WatchStream;
use super::value;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};
use crate::revision::Revision;
use crate::watch::{Pattern, ProgressHandle, Watch, WatchEvent, WatchRequest, WatchSource};

/// Events read ahead of the reader. When they are not taken, no more is read, and etcd keeps
/// the rest until the reader comes back or compaction passes it.
const MAX_READ_AHEAD: usize = 128;

/// Starts a watch; returns when etcd has confirmed it.
pub(super) async fn start(
    cluster: Arc<Cluster>,
    watches: &TaskTracker,
    request: WatchRequest,
) -> Result<Watch> {
    let first = match request.from {
        // Etcd would take the member's own revision, which may lag behind what was acknowledged.
        None => cluster.revision().await?.next(),
        Some(from) => {
            cluster.check_kept(from).await?;
            from
        }
    };
    let create = WatchCreateRequest {
        key: cluster.keyspace.full_key(&request.prefix),
        range_end: cluster.keyspace.prefix_end(&request.prefix),
        start_revision: i64::try_from(first.get()).unwrap_or(i64::MAX),
        prev_kv: true,
    };
    let stream = WatchStream::open(&cluster.client, &create).await.map_err(Failure::into_read_error)?;
    let (handle, requests) = ProgressHandle::new();
    let (sender, events) = mpsc::channel(MAX_READ_AHEAD);
    let progress = Progress::new(requests, cluster.history_age);
    let counted = cluster.watchers.clone();
    let pattern = Pattern::of(&request);
    let follower =
        Follower { cluster, pattern, create, progress, events: sender, backoff: Client::backoff() };
    let task = Task::spawn("etcd-watch", watches.track_future(follower.run(stream)));
    Ok(Watch::new(Box::new(EtcdWatch { events, end: None, _counted: counted, _task: task }), handle))
}

/// The reader's end of a watch.
struct EtcdWatch {
    events: mpsc::Receiver<Result<WatchEvent, End>>,
    end: Option<End>,
    _counted: Arc<()>,
    /// Ends with the watch.
    _task: Task<()>,
}

/// Why a watch has ended for good.
#[derive(Clone)]
enum End {
    Closed,
    Compacted { requested: Revision, oldest: Revision },
    Refused(String),
}

impl End {
    fn error(&self) -> Error {
        match self.clone() {
            End::Closed => Error::Closed,
            End::Compacted { requested, oldest } => Error::Compacted { requested, oldest },
            End::Refused(reason) => Error::Refused(reason),
        }
    }
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

/// The task behind a watch.
struct Follower {
    cluster: Arc<Cluster>,
    /// Which of the keys that etcd tells of the reader hears of.
    pattern: Pattern,
    /// What to ask for; its start is always the first revision not yet delivered.
    create: WatchCreateRequest,
    progress: Progress,
    events: mpsc::Sender<Result<WatchEvent, End>>,
    /// Between a lost stream and the next, until one has brought something.
    backoff: Backoff,
}

/// Why a stream is no longer followed.
enum Stop {
    /// It broke; another one may do better.
    Broken(Failure),
    Ended(End),
    /// Nobody reads the watch any more.
    Abandoned,
}

impl Follower {
    async fn run(mut self, stream: WatchStream) {
        let closed = self.cluster.client.closed().clone();
        // Dropped in the middle, it leaves events unsent that the end of the engine cuts off
        // anyway. The queue's end tells the reader.
        let Some(Some(end)) = closed.run_until_cancelled(self.follow_all(stream)).await else {
            return;
        };
        let _ = self.events.send(Err(end)).await;
    }

    /// Follows one stream after the other. Returns why the watch ends, if anyone cares.
    async fn follow_all(&mut self, mut stream: WatchStream) -> Option<End> {
        loop {
            let failure = match self.follow(&mut stream).await {
                Stop::Broken(failure) => failure,
                Stop::Ended(end) => return Some(end),
                Stop::Abandoned => return None,
            };
            tracing::debug!(?failure, next = self.create.start_revision, "a watch lost its stream");
            self.cluster.client.leave(stream.member());
            stream = match self.reopen().await {
                Ok(stream) => stream,
                Err(end) => return Some(end),
            };
            self.progress.restart(&self.cluster, stream.member());
        }
    }

    async fn reopen(&mut self) -> Result<WatchStream, End> {
        loop {
            tokio::time::sleep(self.backoff.next_delay()).await;
            match WatchStream::open(&self.cluster.client, &self.create).await {
                Ok(stream) => return Ok(stream),
                Err(Failure::Closed) => return Err(End::Closed),
                Err(Failure::Rejected { message, .. }) => return Err(End::Refused(message)),
                // It has tried all members for a while. A watch has no deadline of its own.
                Err(Failure::Unsent(_) | Failure::Unanswered(_)) => {}
            }
        }
    }

    async fn follow(&mut self, stream: &mut WatchStream) -> Stop {
        let member = stream.member();
        loop {
            let next = self.create.start_revision;
            // Both are safe to drop: what has arrived of a response stays in the stream, and
            // where a question for progress stands is kept in `progress`.
            let done = tokio::select! {
                response = stream.next() => match response {
                    Ok(response) => self.take(response).await,
                    Err(failure) => Err(Stop::Broken(failure)),
                },
                wake = self.progress.wake(&self.cluster, member, next) => match wake {
                    Wake::Proved(revision) => self.report(Some(revision)).await,
                    Wake::Ask => {
                        self.progress.asked(stream.ask_for_progress());
                        Ok(())
                    }
                },
            };
            if let Err(stop) = done {
                return stop;
            }
        }
    }

    async fn take(&mut self, response: WatchResponse) -> Result<(), Stop> {
        if response.canceled {
            return Err(self.cancelled(response));
        }
        self.backoff.reset();
        if let Some(revision) = response.progress() {
            let proved = self.progress.answered(revision);
            return self.report(proved).await;
        }
        let Some(last) = response.events.last().map(revision_of) else {
            return Ok(());
        };
        for event in &response.events {
            // A new stream starts where the last one ended, so this is never true; it guards
            // the promise of no duplicates.
            if revision_of(event) < self.create.start_revision {
                continue;
            }
            let event = self.decoded(event).map_err(|error| Stop::Ended(End::Refused(error.to_string())))?;
            if event.key().is_some_and(|key| self.pattern.matches(key)) {
                self.deliver(event).await?;
            }
        }
        self.advance(last);
        let proved = self.progress.saw_events(last);
        self.report(proved).await
    }

    fn cancelled(&self, response: WatchResponse) -> Stop {
        if response.compact_revision == 0 {
            return Stop::Broken(Failure::Unanswered(response.cancel_reason));
        }
        let oldest = value::to_revision(response.compact_revision);
        self.cluster.learn_oldest(oldest);
        Stop::Ended(End::Compacted { requested: value::to_revision(self.create.start_revision), oldest })
    }

    /// Everything up to `proved` has been delivered; tells the reader if it asked.
    async fn report(&mut self, proved: Option<i64>) -> Result<(), Stop> {
        let Some(revision) = proved else { return Ok(()) };
        self.advance(revision);
        if self.progress.finish() {
            self.deliver(WatchEvent::Progress { revision: value::to_revision(revision) }).await?;
        }
        Ok(())
    }

    fn advance(&mut self, delivered: i64) {
        self.create.start_revision = self.create.start_revision.max(delivered.saturating_add(1));
    }

    async fn deliver(&mut self, event: WatchEvent) -> Result<(), Stop> {
        self.events.send(Ok(event)).await.map_err(|_| Stop::Abandoned)
    }

    fn decoded(&self, event: &Event) -> Result<WatchEvent> {
        let previous = event.prev_kv.as_ref().map(|kv| self.cluster.entry(kv)).transpose()?;
        let kv = event.kv.clone().unwrap_or_default();
        if !event.is_delete() {
            return Ok(WatchEvent::Put { entry: self.cluster.entry(&kv)?, previous });
        }
        // Copied, or a reader that keeps the key would keep the whole response.
        let key = Bytes::copy_from_slice(&self.cluster.keyspace.strip(&kv.key)?);
        Ok(WatchEvent::Delete { key, revision: value::to_revision(kv.mod_revision), previous })
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}
