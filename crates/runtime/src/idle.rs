//! Detects exactly when all controllers are idle, without waiting for a period of silence.
//!
//! A cluster is idle when every informer has delivered everything up to the server's current revision to its queues,
//! no queue holds a ready key, no worker is processing one, every runnable is quiet, every recorded event is written,
//! and the server is still at that revision afterwards.

use std::sync::Arc;

use kube::Client;
use kube::api::ListParams;
use kube::core::request::Request as Requests;
use serde::Deserialize;
use tokio::sync::watch;

use crate::dynamic::DynamicReflectors;
use crate::informer::AnyReflector;
use crate::key::ObjectKey;
use crate::queue::Queue;
use crate::runnable::Quiescence;

/// The metadata of any list holds the revision of the whole server; every server has namespaces.
const ANY_LIST: &str = "/api/v1/namespaces";

/// Waits until everything that a manager runs is idle. For tests; cheap to clone.
#[derive(Clone)]
pub struct Idle {
    client: Client,
    informers: Arc<[Arc<dyn AnyReflector>]>,
    dynamic: DynamicReflectors,
    queues: Arc<[Queue<ObjectKey>]>,
    quiescence: Arc<[Box<dyn Quiescence>]>,
    /// Number of recorded events that are not written yet.
    events: watch::Receiver<usize>,
}

/// State of a manager at the moment it was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleReport {
    /// Revision of the server, which all informers had reached.
    pub revision: u64,
    /// Number of reconciles since the manager started.
    pub reconciles: u64,
    /// Number of keys that will be reconciled later, after a failure or because of
    /// [`RequeueAfter`](crate::Action::RequeueAfter).
    pub delayed: usize,
}

impl Idle {
    pub(crate) fn new(
        client: Client,
        informers: Vec<Arc<dyn AnyReflector>>,
        dynamic: DynamicReflectors,
        queues: Vec<Queue<ObjectKey>>,
        quiescence: Vec<Box<dyn Quiescence>>,
        events: watch::Receiver<usize>,
    ) -> Self {
        let (informers, queues, quiescence) = (informers.into(), queues.into(), quiescence.into());
        Self { client, informers, dynamic, queues, quiescence, events }
    }

    /// Waits until the controllers have nothing to do. Delayed keys are not waited for; the report holds their
    /// number. Controllers that undo each other's changes are never idle, so use a timeout.
    ///
    /// An informer whose kind has not changed relists to prove that it missed nothing, so do not call this in a loop
    /// in production.
    ///
    /// # Errors
    /// If the server does not return its revision.
    pub async fn run_until_idle(&self) -> kube::Result<IdleReport> {
        loop {
            let reconciles = self.reconciles();
            let revision = self.revision().await?;
            let informers: Vec<_> = self.informers.iter().cloned().chain(self.dynamic.current()).collect();
            // All before the first wait: otherwise each informer would relist only after the one before it.
            for informer in &informers {
                informer.require(revision);
            }
            for informer in &informers {
                // Fails only if the informer is dropped, and `informers` holds it.
                drop(informer.progress().wait_for(|progress| progress.revision >= revision).await);
            }
            for queue in self.queues.iter() {
                queue.quiet().await;
            }
            for part in self.quiescence.iter() {
                part.quiet().await;
            }
            // Fails only if the manager is dropped, after which nothing is written any more.
            drop(self.events.clone().wait_for(|waiting| *waiting == 0).await);
            if self.reconciles() == reconciles && self.revision().await? == revision {
                let delayed_by_queues: usize = self.queues.iter().map(|queue| queue.depth().delayed).sum();
                let delayed_by_runnables: usize = self.quiescence.iter().map(|part| part.delayed()).sum();
                return Ok(IdleReport {
                    revision,
                    reconciles,
                    delayed: delayed_by_queues + delayed_by_runnables,
                });
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
