//! Informers for kinds that come and go with CustomResourceDefinitions and aggregated APIs.
//!
//! An informer of the manager lives as long as the manager. [`DynamicReflectors::follow`] starts a reflector at any
//! time, also while the manager runs; it ends when the returned [`ReflectorHandle`] is dropped.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use coracle_base::{Rng, Task};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::informer::{AnyReflector, Consumer, Reflector, Selection};
use crate::key::ClusterId;

/// Starts and stops reflectors while a manager runs. Clones share the same set.
#[derive(Clone, Default)]
pub struct DynamicReflectors {
    reflectors: Arc<watch::Sender<Vec<Arc<dyn AnyReflector>>>>,
    /// Cancelled when the manager stops.
    stopped: CancellationToken,
}

/// A running reflector, which stops when this handle is dropped. Changes in flight may still be delivered after that.
pub struct ReflectorHandle {
    reflector: Arc<dyn AnyReflector>,
    all: DynamicReflectors,
}

impl DynamicReflectors {
    /// Delivers the objects of one cluster, or of all clusters, and their changes to `consumer`.
    #[must_use = "dropping the handle stops the reflector"]
    pub fn follow(
        &self,
        cluster: ClusterId,
        selection: Selection,
        consumer: impl Consumer,
    ) -> ReflectorHandle {
        let reflector: Arc<dyn AnyReflector> = Arc::new(Reflector::new(cluster, selection, consumer));
        self.reflectors.send_modify(|all| all.push(Arc::clone(&reflector)));
        ReflectorHandle { reflector, all: self.clone() }
    }

    pub(crate) fn current(&self) -> Vec<Arc<dyn AnyReflector>> {
        self.reflectors.borrow().clone()
    }

    /// Runs a task for each reflector in the set. Returns only if one of these tasks ends, which none does normally.
    pub(crate) async fn run(self, client: Client, mut rng: Rng) {
        let _stopped = self.stopped.clone().drop_guard();
        let mut changes = self.reflectors.subscribe();
        let mut running: Running = HashMap::new();
        loop {
            // In the order of the `follow` calls, so that a run with seeded randomness is reproducible.
            let reflectors = changes.borrow_and_update().clone();
            let addresses: HashSet<usize> = reflectors.iter().map(address).collect();
            running.retain(|address, _| addresses.contains(address));
            for reflector in reflectors {
                running.entry(address(&reflector)).or_insert_with(|| {
                    let run = Arc::clone(&reflector).follow(client.clone(), rng.fork());
                    (reflector, Task::spawn("informer", run))
                });
            }
            tokio::select! {
                // Both branches are safe to drop: they only wait. The sender lives in `self`.
                biased;
                _ = changes.changed() => {}
                () = any_ended(&mut running) => return,
            }
        }
    }
}

impl ReflectorHandle {
    /// Waits until the initial list is delivered, its first attempt failed, or the manager stops.
    pub fn attempted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut progress = self.reflector.progress();
        let stopped = self.all.stopped.clone();
        async move {
            tokio::select! {
                // Both branches are safe to drop: they only wait. `wait_for` fails only if the reflector is dropped,
                // after which nothing is delivered.
                _ = progress.wait_for(|progress| progress.attempted) => {}
                () = stopped.cancelled() => {}
            }
        }
    }

    /// True if the initial list has been delivered.
    pub fn has_synced(&self) -> bool {
        self.reflector.progress().borrow().synced
    }
}

impl Drop for ReflectorHandle {
    fn drop(&mut self) {
        self.all.reflectors.send_modify(|all| all.retain(|other| !Arc::ptr_eq(other, &self.reflector)));
        self.reflector.retire();
    }
}

/// Running reflectors by address, which is unique as long as the `Arc` is held.
type Running = HashMap<usize, (Arc<dyn AnyReflector>, Task<()>)>;

fn address(reflector: &Arc<dyn AnyReflector>) -> usize {
    Arc::as_ptr(reflector).cast::<()>().addr()
}

async fn any_ended(running: &mut Running) {
    std::future::poll_fn(|cx| {
        let ended = |task: &mut Task<()>| Pin::new(task).poll(cx).is_ready();
        if running.values_mut().map(|(_, task)| task).any(ended) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
