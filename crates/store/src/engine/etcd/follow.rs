//! Reads etcd's changes from a revision on, and switches to another member when the current one is lost.
//!
//! A follower reads one watch stream at a time and keeps the next revision to deliver. Etcd sends all events of one
//! revision in one response (fragments are not requested), so that revision suffices to resume.

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

/// Receives the changes from a follower.
pub(super) trait Sink: Send {
    /// Receives the events of one or more complete revisions, in order. They are delivered once.
    fn take(&mut self, events: &[Event]) -> impl Future<Output = Result<(), Stop>> + Send;

    /// Called when everything up to this revision has been delivered. `was_requested` is true if the reader requested
    /// progress.
    fn reached(
        &mut self,
        revision: Revision,
        was_requested: bool,
    ) -> impl Future<Output = Result<(), Stop>> + Send;
}

/// Reason why a watch has ended permanently.
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

/// Reason why a follower stops reading a stream.
pub(super) enum Stop {
    /// The stream broke; a new one may work.
    Broken(Failure),
    /// No other stream would work.
    Ended(End),
    /// The watch was dropped.
    Abandoned,
}

/// Reads one stream after the other.
pub(super) struct Follower<S> {
    cluster: Arc<Cluster>,
    pub(super) sink: S,
    /// The watch request; its start is always the first revision that is not delivered yet.
    create: WatchCreateRequest,
    progress: Progress,
    /// The first stream, until it is read.
    opened: Option<WatchStream>,
    /// Backoff between streams, reset when a stream has delivered something.
    backoff: Backoff,
}

impl<S: Sink> Follower<S> {
    /// Opens the first stream; `requests` counts progress requests.
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

    /// Reads until the watch ends. Returns the reason, unless the engine was closed or the watch was dropped.
    pub(super) async fn run(&mut self) -> Option<End> {
        let closed = self.cluster.client.closed().clone();
        // If dropped in the middle, it leaves events undelivered, which closing the engine cuts off anyway.
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
                // All members were tried for a while. A watch has no deadline.
                Err(Failure::Unsent(_) | Failure::Unanswered(_)) => {}
            }
        }
    }

    async fn follow(&mut self, stream: &mut WatchStream) -> Stop {
        let member = stream.member();
        loop {
            let next = self.create.start_revision;
            // Both are safe to drop: a partial response stays in the stream, and the state of a progress request in
            // `progress`.
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
        // A new stream starts where the last one ended, so none is older; this guarantees that there are no
        // duplicates.
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

    /// Reports to the sink that everything up to `proved` has been delivered.
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
