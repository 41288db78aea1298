//! What plugins can do apart from what they are asked, from wherever they are.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::Clock;
use coracle_runtime::{ClusterId, EventsRecorder};
use kube::Client;
use tokio::sync::Notify;

use super::waiting::{PodId, WaitingPods};

/// So many wishes of plugins wait to be seen to. With more, every pod that waits is looked at, which is more than
/// anybody can have wished for.
const MAX_SIGNALS: usize = 4096;

/// What a plugin has to do with the scheduler it is in. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) waiting: WaitingPods,
    pub(crate) signals: Signals,
    pub(crate) clock: Clock,
    /// None where nothing is written, as in a simulation.
    pub(crate) client: Option<Client>,
    pub(crate) recorder: Option<EventsRecorder>,
}

impl Handle {
    /// Pods that plugins made wait.
    pub fn waiting_pods(&self) -> &WaitingPods {
        &self.waiting
    }

    /// Has a pod tried again that was refused, or is kept back by nobody any more; at once, however often it was
    /// refused. Others are left where they are.
    pub fn activate(&self, cluster: &ClusterId, uid: &str) {
        self.signals.push(PodId::new(cluster, uid));
    }

    /// The time by which everything here goes.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What the scheduler asks the server with; none in a simulation.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// What tells people of the doings of the profile; none in a simulation.
    pub fn recorder(&self) -> Option<&EventsRecorder> {
        self.recorder.as_ref()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// What plugins wish for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// That a pod is tried.
    Activate(PodId),
    /// That every pod is.
    ActivateAll,
}

/// Wishes that nobody has seen to. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Signals(Arc<Wishes>);

#[derive(Default)]
struct Wishes {
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

    /// Returns when there are some. Safe to drop.
    pub(crate) async fn news(&self) {
        self.0.news.notified().await;
    }

    pub(crate) fn take(&self) -> VecDeque<Signal> {
        std::mem::take(&mut *self.queue())
    }

    /// Held for a few lines only, in which nothing panics.
    fn queue(&self) -> MutexGuard<'_, VecDeque<Signal>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_wishes_are_one_for_all() {
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
