//! One stream of watch responses from one member, and the probe that is made with it.

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

/// Requests on their way to etcd: one to create, then one for progress at a time. Full only
/// if the member does not read; the next is then not sent, and asked for again later.
const MAX_UNSENT: usize = 4;

/// How long etcd gets to say that a revision has been compacted. It looks at watches of the
/// past every 100 ms.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// An open watch.
pub(super) struct WatchStream {
    member: usize,
    url: String,
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Opens a watch with any member that answers within the request timeout.
    pub(super) async fn open(client: &Client, create: &WatchCreateRequest) -> Result<Self, Failure> {
        client.retried(Repeat::Always, |member| Self::open_with(client, member, create.clone())).await
    }

    async fn open_with(client: &Client, member: usize, create: WatchCreateRequest) -> Result<Self, Failure> {
        let (requests, receiver) = mpsc::channel(MAX_UNSENT);
        // The channel is new and has room.
        let _ = requests.try_send(WatchCommand::Create(create).into());
        let responses = client.open_watch(member, ReceiverStream::new(receiver)).await?;
        let url = client.url(member).to_owned();
        let mut stream = Self { member, url, requests, responses };
        let created = stream.next().await?;
        if created.canceled {
            // Said in this way only to users who may not read the keys.
            return Err(Failure::Rejected { code: Code::PermissionDenied, message: created.cancel_reason });
        }
        Ok(stream)
    }

    pub(super) fn member(&self) -> usize {
        self.member
    }

    /// The next response. Safe to drop before it is ready: what has arrived of it stays in
    /// the stream.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Failure> {
        match self.responses.message().await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(Failure::Unanswered(format!("{}: the watch was ended", self.url))),
            Err(status) => Err(Failure::of_call(&self.url, &status)),
        }
    }

    /// Asks how far the member has come; false if the request could not be sent now.
    pub(super) fn ask_for_progress(&self) -> bool {
        self.requests.try_send(WatchCommand::Progress(WatchProgressRequest {}).into()).is_ok()
    }
}

/// The oldest revision kept, where `requested` is known to be older. Etcd tells it to nobody
/// but a watch that begins too early, so one is made, on a key that nobody writes.
pub(super) async fn find_oldest(cluster: &Cluster, requested: Revision) -> Result<Revision> {
    let create = WatchCreateRequest {
        key: cluster.keyspace.unused_key(),
        range_end: NO_END,
        start_revision: requested.get() as i64,
        prev_kv: false,
    };
    let mut stream = WatchStream::open(&cluster.client, &create).await.map_err(Failure::into_read_error)?;
    // A member that lags and has not heard of the compaction says nothing in time, and the
    // best that is known must do.
    if let Ok(response) = timeout(PROBE_TIME, stream.next()).await {
        let response = response.map_err(Failure::into_read_error)?;
        cluster.learn_oldest(value::to_revision(response.compact_revision));
    }
    Ok(cluster.oldest_known().max(requested.next()))
}
