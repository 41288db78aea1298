//! A watch stream to one member, and the probe for the oldest revision.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::client::{Client, Repeat};
use super::cluster::Cluster;
use super::failure::Failure;
use super::proto::{
    NO_END, WatchCommand, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use super::value;
use crate::error::Result;
use crate::revision::Revision;

/// Queued requests to etcd: one to create the watch, then one for progress at a time. Full only if the member does
/// not read; the request is then dropped and repeated later.
const MAX_UNSENT: usize = 4;

/// Time for etcd to report that a revision has been compacted. It processes watches of past revisions every 100 ms.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// An open watch.
pub(super) struct WatchStream {
    member: usize,
    url: String,
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Opens a watch with any member that responds within the request timeout.
    pub(super) async fn open(client: &Client, create: &WatchCreateRequest) -> Result<Self, Failure> {
        client.retried(Repeat::Always, |member| Self::open_with(client, member, create.clone())).await
    }

    async fn open_with(client: &Client, member: usize, create: WatchCreateRequest) -> Result<Self, Failure> {
        let (requests, receiver) = mpsc::channel(MAX_UNSENT);
        // The channel is new and has capacity.
        let _ = requests.try_send(WatchCommand::Create(create).into());
        let responses = client.open_watch(member, ReceiverStream::new(receiver)).await?;
        let url = client.url(member).to_owned();
        let mut stream = Self { member, url, requests, responses };
        let created = stream.next().await?;
        if created.canceled {
            // Etcd reports it in this way only to users who may not read the keys.
            return Err(Failure::Rejected { code: Code::PermissionDenied, message: created.cancel_reason });
        }
        Ok(stream)
    }

    pub(super) fn member(&self) -> usize {
        self.member
    }

    /// The next response. Safe to drop before it is ready: a partial response stays in the stream.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Failure> {
        match self.responses.message().await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(Failure::Unanswered(format!("{}: the watch was ended", self.url))),
            Err(status) => Err(Failure::of_call(&self.url, &status)),
        }
    }

    /// Sends a progress request; returns false if it cannot be sent now.
    pub(super) fn ask_for_progress(&self) -> bool {
        self.requests.try_send(WatchCommand::Progress(WatchProgressRequest {}).into()).is_ok()
    }
}

/// The oldest kept revision, given that `requested` is older. Etcd reports it only to a watch that starts too early,
/// so this opens one, on a key that is never written.
pub(super) async fn find_oldest(cluster: &Cluster, requested: Revision) -> Result<Revision> {
    let create = WatchCreateRequest {
        key: cluster.keyspace.unused_key(),
        range_end: NO_END,
        start_revision: requested.get() as i64,
        prev_kv: false,
    };
    let mut stream = WatchStream::open(&cluster.client, &create).await.map_err(Failure::into_read_error)?;
    // A member that lags and has not applied the compaction does not respond in time; then the best known revision
    // must suffice.
    if let Ok(response) = timeout(PROBE_TIME, stream.next()).await {
        let response = response.map_err(Failure::into_read_error)?;
        cluster.learn_oldest(value::to_revision(response.compact_revision));
    }
    Ok(cluster.oldest_known().max(requested.next()))
}
