//! Informers for kinds that come and go with CustomResourceDefinitions and aggregated APIs.
//!
//! An informer of the manager lives as long as the manager. [`Dynamic::follow`] starts a reflector at any time, also
//! while the manager runs; it ends when the returned [`Following`] is dropped.

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
pub struct Dynamic {
    followed: Arc<watch::Sender<Vec<Arc<dyn AnyReflector>>>>,
    /// Cancelled when the manager stops.
    stopped: CancellationToken,
}

/// A running reflector, which stops when this handle is dropped. Changes in flight may still be delivered after that.
pub struct Following {
    followed: Arc<dyn AnyReflector>,
    all: Dynamic,
}

impl Dynamic {
    /// Delivers the objects of one cluster, or of all clusters, and their changes to `consumer`.
    #[must_use = "nothing is followed any more when it is dropped"]
    pub fn follow(&self, cluster: ClusterId, selection: Selection, consumer: impl Consumer) -> Following {
        let followed: Arc<dyn AnyReflector> = Arc::new(Reflector::new(cluster, selection, consumer));
        self.followed.send_modify(|all| all.push(Arc::clone(&followed)));
        Following { followed, all: self.clone() }
    }

    pub(crate) fn current(&self) -> Vec<Arc<dyn AnyReflector>> {
        self.followed.borrow().clone()
    }

    /// Runs a task for each reflector in the set. Returns only if one of these tasks ends, which none does normally.
    pub(crate) async fn run(self, client: Client, mut rng: Rng) {
        let _stopped = self.stopped.clone().drop_guard();
        let mut wanted = self.followed.subscribe();
        let mut running: Running = HashMap::new();
        loop {
            // In the order of the `follow` calls, so that a run with seeded randomness is reproducible.
            let now = wanted.borrow_and_update().clone();
            let kept: HashSet<usize> = now.iter().map(address).collect();
            running.retain(|known, _| kept.contains(known));
            for followed in now {
                running.entry(address(&followed)).or_insert_with(|| {
                    let following = Arc::clone(&followed).follow(client.clone(), rng.fork());
                    (followed, Task::spawn("informer", following))
                });
            }
            tokio::select! {
                // Both branches are safe to drop: they only wait. The sender lives in `self`.
                biased;
                _ = wanted.changed() => {}
                () = any_ended(&mut running) => return,
            }
        }
    }
}

impl Following {
    /// Waits until the initial list is delivered, its first attempt failed, or the manager stops.
    pub fn attempted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut progress = self.followed.progress();
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
        self.followed.progress().borrow().synced
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.followed.send_modify(|all| all.retain(|known| !Arc::ptr_eq(known, &self.followed)));
        self.followed.retire();
    }
}

/// Running reflectors by address, which is unique as long as the `Arc` is held.
type Running = HashMap<usize, (Arc<dyn AnyReflector>, Task<()>)>;

fn address(followed: &Arc<dyn AnyReflector>) -> usize {
    Arc::as_ptr(followed).cast::<()>().addr()
}

async fn any_ended(running: &mut Running) {
    std::future::poll_fn(|cx| {
        let ended = |task: &mut Task<()>| Pin::new(task).poll(cx).is_ready();
        if running.values_mut().map(|(_, task)| task).any(ended) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
