//! Kinds that are followed for a while: those that custom resources bring and take away again.
//!
//! An informer is there as long as its manager. Whoever follows what comes and goes asks for it with
//! [`Dynamic::follow`], also while the manager runs, and it ends when what that returned is dropped.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use coracle_base::{Rng, Task};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::informer::{Consumer, Followed, Reflector, Selection};
use crate::key::ClusterId;

/// Starts and ends to follow kinds while a manager runs. Clones are the same.
#[derive(Clone, Default)]
pub struct Dynamic {
    followed: Arc<watch::Sender<Vec<Arc<dyn Followed>>>>,
    /// Cancelled when the manager stops.
    stopped: CancellationToken,
}

/// Something is being followed, until this is dropped. What is under way then may still be told.
pub struct Following {
    followed: Arc<dyn Followed>,
    all: Dynamic,
}

impl Dynamic {
    /// Tells `consumer` what there is in a cluster, or in all, and what changes.
    #[must_use = "nothing is followed any more when it is dropped"]
    pub fn follow(&self, cluster: ClusterId, selection: Selection, consumer: impl Consumer) -> Following {
        let followed: Arc<dyn Followed> = Arc::new(Reflector::new(cluster, selection, consumer));
        self.followed.send_modify(|all| all.push(Arc::clone(&followed)));
        Following { followed, all: self.clone() }
    }

    /// Everything that is followed now.
    pub(crate) fn current(&self) -> Vec<Arc<dyn Followed>> {
        self.followed.borrow().clone()
    }

    /// Follows whatever is wanted. Returns only if a task of it failed, which none does.
    pub(crate) async fn run(self, client: Client, mut rng: Rng) {
        let _stopped = self.stopped.clone().drop_guard();
        let mut wanted = self.followed.subscribe();
        let mut running: Running = HashMap::new();
        loop {
            // In the order they were asked for, so that a run can be repeated.
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
                // Both may be dropped: they only wait. The sender lives in `self`.
                biased;
                _ = wanted.changed() => {}
                () = any_ended(&mut running) => return,
            }
        }
    }
}

impl Following {
    /// Waits until everything has been told, could not be at the first attempt, or will not be because the manager
    /// stops.
    pub fn attempted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut progress = self.followed.progress();
        let stopped = self.all.stopped.clone();
        async move {
            tokio::select! {
                // Both may be dropped: they only wait. It fails only with what is followed, and then nothing will be told.
                _ = progress.wait_for(|progress| progress.attempted) => {}
                () = stopped.cancelled() => {}
            }
        }
    }

    /// Whether everything has been told once.
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

/// What runs, by where it is in memory: that is nobody else's as long as it is held.
type Running = HashMap<usize, (Arc<dyn Followed>, Task<()>)>;

fn address(followed: &Arc<dyn Followed>) -> usize {
    Arc::as_ptr(followed).cast::<()>().addr()
}

async fn any_ended(running: &mut Running) {
    std::future::poll_fn(|cx| {
        let ended = |task: &mut Task<()>| Pin::new(task).poll(cx).is_ready();
        if running.values_mut().map(|(_, task)| task).any(ended) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
