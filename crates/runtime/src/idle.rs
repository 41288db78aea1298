//! Knowing when nothing is left to do, exactly and without waiting for silence.
//!
//! A cluster is idle when every informer has told its queues of everything up to the revision the server
//! is at, no queue holds a key that is ready and no worker has one, every program is quiet, every event that
//! was told is written, and the server is still at that revision afterwards.

use std::sync::Arc;

use kube::Client;
use kube::api::ListParams;
use kube::core::request::Request as Requests;
use serde::Deserialize;
use tokio::sync::watch;

use crate::dynamic::Dynamic;
use crate::informer::Followed;
use crate::key::ObjectKey;
use crate::queue::Queue;
use crate::runnable::Quiescence;

/// Any list tells the revision of the whole server; this kind is everywhere.
const ANY_LIST: &str = "/api/v1/namespaces";

/// Tells when everything a manager runs is at rest. For tests; cheap to clone.
#[derive(Clone)]
pub struct Idle {
    client: Client,
    informers: Arc<[Arc<dyn Followed>]>,
    dynamic: Dynamic,
    queues: Arc<[Queue<ObjectKey>]>,
    quiescence: Arc<[Box<dyn Quiescence>]>,
    /// How many events wait to be written.
    events: watch::Receiver<usize>,
}

/// What was found when everything was at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// The revision the server is at, and everyone knows.
    pub revision: u64,
    /// How many reconciles there have been since the manager started.
    pub reconciles: u64,
    /// How many keys come back later, because they failed or asked for it.
    pub delayed: usize,
}

impl Idle {
    pub(crate) fn new(
        client: Client,
        informers: Vec<Arc<dyn Followed>>,
        dynamic: Dynamic,
        queues: Vec<Queue<ObjectKey>>,
        quiescence: Vec<Box<dyn Quiescence>>,
        events: watch::Receiver<usize>,
    ) -> Self {
        let (informers, queues, quiescence) = (informers.into(), queues.into(), quiescence.into());
        Self { client, informers, dynamic, queues, quiescence, events }
    }

    /// Lets the controllers run until they have nothing to do. Keys that come back later do not count;
    /// the report says how many there are. Controllers that fight for ever are never idle, so put a limit
    /// of time on it.
    ///
    /// Informers whose kind has been quiet ask once more for everything to know that they missed nothing, so this is
    /// not for runnables that ask all the time.
    ///
    /// # Errors
    /// If the server does not say which revision it is at.
    pub async fn run_until_idle(&self) -> kube::Result<IdleReport> {
        loop {
            let reconciles = self.reconciles();
            let revision = self.revision().await?;
            let informers: Vec<_> = self.informers.iter().cloned().chain(self.dynamic.current()).collect();
            // All at once, or each would ask only after the one before.
            for informer in &informers {
                informer.want(revision);
            }
            for informer in &informers {
                // It fails only with the informer, which this holds.
                drop(informer.progress().wait_for(|progress| progress.revision >= revision).await);
            }
            for queue in self.queues.iter() {
                queue.quiet().await;
            }
            for part in self.quiescence.iter() {
                part.quiet().await;
            }
            // It fails only with the manager, and then nothing is written any more.
            drop(self.events.clone().wait_for(|waiting| *waiting == 0).await);
            if self.reconciles() == reconciles && self.revision().await? == revision {
                let of_queues: usize = self.queues.iter().map(|queue| queue.depth().delayed).sum();
                let of_runnables: usize = self.quiescence.iter().map(|part| part.delayed()).sum();
                return Ok(IdleReport { revision, reconciles, delayed: of_queues + of_runnables });
            }
        }
    }

    fn reconciles(&self) -> u64 {
        let begun: u64 = self.quiescence.iter().map(|part| part.begun()).sum();
        self.queues.iter().map(Queue::taken).sum::<u64>() + begun
    }

    async fn revision(&self) -> kube::Result<u64> {
        let params = ListParams::default().limit(1);
        let request = Requests::new(ANY_LIST).list_metadata(&params).map_err(kube::Error::BuildRequest)?;
        let list: AnyList = self.client.request(request).await?;
        Ok(list.metadata.resource_version.parse().unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct AnyList {
    metadata: ListMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}
