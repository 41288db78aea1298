//! Following etcd's changes from a revision on, with another member when the present one is lost.
//!
//! A follower reads one stream of etcd at a time and knows the next revision to deliver. Etcd puts all events of one
//! revision into one response (fragments are not asked for), so that number is all there is to resume from.

use std::sync::Arc;

use coracle_base::Backoff;
use tokio::sync::watch;

use super::client::Client;
use super::cluster::Cluster;
use super::failure::Failure;
use super::progress::{Progress, Wake};
use super::proto::{Event, WatchCreateRequest, WatchResponse};
use super::stream::WatchStream;
use super::value;
use crate::error::Error;
use crate::revision::Revision;

/// Receives the changes that a follower reads.
pub(super) trait Sink: Send {
    /// Takes the events of one or more whole revisions, in order. They are never delivered again.
    fn take(&mut self, events: &[Event]) -> impl Future<Output = Result<(), Stop>> + Send;

    /// Everything up to this revision has been taken. `was_requested`: the reader's handle asked for this news.
    fn reached(
        &mut self,
        revision: Revision,
        was_requested: bool,
    ) -> impl Future<Output = Result<(), Stop>> + Send;
}

/// Why a watch has ended for good.
#[derive(Clone, Debug)]
pub(super) enum End {
    Closed,
    Compacted { requested: Revision, oldest: Revision },
    Refused(String),
}

impl End {
    pub(super) fn error(&self) -> Error {
        match self.clone() {
            End::Closed => Error::Closed,
            End::Compacted { requested, oldest } => Error::Compacted { requested, oldest },
            End::Refused(reason) => Error::Refused(reason),
        }
    }
}

/// Why a stream is no longer followed.
pub(super) enum Stop {
    /// It broke; another one may do better.
    Broken(Failure),
    /// No stream would do better.
    Ended(End),
    /// Nobody reads the watch any more.
    Abandoned,
}

/// The reader of one stream after the other.
pub(super) struct Follower<S> {
    cluster: Arc<Cluster>,
    pub(super) sink: S,
    /// What to ask for; its start is always the first revision not yet delivered.
    create: WatchCreateRequest,
    progress: Progress,
    /// The first stream, until it is followed.
    opened: Option<WatchStream>,
    /// Between a lost stream and the next, until one has brought something.
    backoff: Backoff,
}

impl<S: Sink> Follower<S> {
    /// Opens the first stream; `requests` counts the requests for progress.
    pub(super) async fn open(
        cluster: Arc<Cluster>,
        create: WatchCreateRequest,
        requests: watch::Receiver<u64>,
        sink: S,
    ) -> Result<Self, Failure> {
        let opened = Some(WatchStream::open(&cluster.client, &create).await?);
        let progress = Progress::new(requests, cluster.history_age);
        Ok(Self { cluster, sink, create, progress, opened, backoff: Client::backoff() })
    }

    /// Follows until there is no more to follow. Returns why, unless the engine was closed or nobody reads any more.
    pub(super) async fn run(&mut self) -> Option<End> {
        let closed = self.cluster.client.closed().clone();
        // Dropped in the middle, it leaves events undelivered that the end of the engine cuts off anyway.
        closed.run_until_cancelled(self.follow_all()).await.flatten()
    }

    async fn follow_all(&mut self) -> Option<End> {
        loop {
            let mut stream = match self.opened.take() {
                Some(stream) => stream,
                None => match self.reopen().await {
                    Ok(stream) => stream,
                    Err(end) => return Some(end),
                },
            };
            let failure = match self.follow(&mut stream).await {
                Stop::Broken(failure) => failure,
                Stop::Ended(end) => return Some(end),
                Stop::Abandoned => return None,
            };
            tracing::debug!(?failure, next = self.create.start_revision, "a watch lost its stream");
            self.cluster.client.leave(stream.member());
        }
    }

    async fn reopen(&mut self) -> Result<WatchStream, End> {
        loop {
            tokio::time::sleep(self.backoff.next_delay()).await;
            match WatchStream::open(&self.cluster.client, &self.create).await {
                Ok(stream) => {
                    self.progress.restart(&self.cluster, stream.member());
                    return Ok(stream);
                }
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
        // A new stream starts where the last one ended, so none is older; this guards the promise of no duplicates.
        let start = self.create.start_revision;
        let fresh = response.events.partition_point(|event| revision_of(event) < start);
        self.sink.take(&response.events[fresh..]).await?;
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

    /// Everything up to `proved` has been delivered; tells the sink.
    async fn report(&mut self, proved: Option<i64>) -> Result<(), Stop> {
        let Some(revision) = proved else { return Ok(()) };
        self.advance(revision);
        let was_requested = self.progress.finish();
        self.sink.reached(value::to_revision(revision), was_requested).await
    }

    fn advance(&mut self, delivered: i64) {
        self.create.start_revision = self.create.start_revision.max(delivered.saturating_add(1));
    }
}

pub(super) fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}
