//! The handle by which plugins act outside of extension point calls.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::Clock;
use coracle_runtime::{ClusterId, EventsRecorder};
use kube::Client;
use tokio::sync::Notify;

use super::waiting::{PodId, WaitingPods};

/// Limit of queued activations. Beyond it they are replaced by one that activates every unschedulable pod.
const MAX_SIGNALS: usize = 4096;

/// A plugin's access to its scheduler. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) waiting: WaitingPods,
    pub(crate) signals: Signals,
    pub(crate) clock: Clock,
    /// None in a simulation, where nothing is written.
    pub(crate) client: Option<Client>,
    pub(crate) recorder: Option<EventsRecorder>,
}

impl Handle {
    /// Pods that wait for a Permit plugin.
    pub fn waiting_pods(&self) -> &WaitingPods {
        &self.waiting
    }

    /// Moves an unschedulable or gated pod to the active queue, without backoff. Has no effect on other
    /// pods.
    pub fn activate(&self, cluster: &ClusterId, uid: &str) {
        self.signals.push(PodId::new(cluster, uid));
    }

    /// The scheduler's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The client of the API server; none in a simulation.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// The event recorder of the profile; none in a simulation.
    pub fn recorder(&self) -> Option<&EventsRecorder> {
        self.recorder.as_ref()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// A plugin's request to the scheduling task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Activate one pod.
    Activate(PodId),
    /// Activate every unschedulable pod.
    ActivateAll,
}

/// Queue of signals that have not been handled. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Signals(Arc<SignalQueue>);

#[derive(Default)]
struct SignalQueue {
    queue: Mutex<VecDeque<Signal>>,
    news: Notify,
}

impl Signals {
    fn push(&self, id: PodId) {
        let mut queue = self.queue();
        if queue.len() >= MAX_SIGNALS {
            queue.clear();
            queue.push_back(Signal::ActivateAll);
        } else if queue.front() != Some(&Signal::ActivateAll) {
            queue.push_back(Signal::Activate(id));
        }
        drop(queue);
        self.0.news.notify_one();
    }

    /// Waits until there are signals. Cancel-safe.
    pub(crate) async fn news(&self) {
        self.0.news.notified().await;
    }

    pub(crate) fn take(&self) -> VecDeque<Signal> {
        std::mem::take(&mut *self.queue())
    }

    /// The lock is held for a few lines only, in which nothing panics.
    fn queue(&self) -> MutexGuard<'_, VecDeque<Signal>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_signals_become_one_for_all_pods() {
        let signals = Signals::default();
        let id = PodId::new(&ClusterId::default(), "p");
        for _ in 0..MAX_SIGNALS {
            signals.push(id.clone());
        }
        assert_eq!(signals.queue().len(), MAX_SIGNALS);
        signals.push(id.clone());
        signals.push(id.clone());
        assert_eq!(signals.take(), [Signal::ActivateAll]);
        signals.push(id.clone());
        assert_eq!(signals.take(), [Signal::Activate(id)]);
    }
}
