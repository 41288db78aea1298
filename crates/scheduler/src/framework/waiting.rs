//! Waiting pods: they have a node and wait until Permit plugins allow the binding.
//!
//! The list is shared with all plugins, so that they can allow or reject pods from anywhere: in their own
//! `permit`, on a cluster event, or in a task of theirs. Verdicts are recorded here, and the scheduling
//! task is woken to act on them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::time::go_duration;
use coracle_runtime::ClusterId;
use tokio::sync::Notify;

use crate::view::Pod;

/// Upper limit of a Permit timeout: kube-scheduler's `maxTimeout`.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);

/// Identifies a pod across clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId {
    pub(crate) cluster: ClusterId,
    pub(crate) uid: Box<str>,
}

impl PodId {
    pub(crate) fn new(cluster: &ClusterId, uid: &str) -> Self {
        Self { cluster: cluster.clone(), uid: uid.into() }
    }
}

/// Decision about a waiting pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// A plugin rejected the pod, or its timeout expired.
    Rejected {
        plugin: String,
        message: String,
    },
    /// The pod was preempted; it counts as schedulable.
    Preempted {
        message: String,
    },
}

/// All waiting pods of all clusters, at most as many as there are unassigned pods. Clones share the list.
#[derive(Clone, Default)]
pub struct WaitingPods(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals a new verdict.
    news: Notify,
}

#[derive(Default)]
struct State {
    pods: HashMap<PodId, Waiting>,
    /// By the order in which they began to wait.
    order: BTreeMap<u64, PodId>,
    /// Timeouts of single plugins.
    deadlines: BTreeSet<(Timestamp, PodId, &'static str)>,
    /// Verdicts the scheduler has not acted on: at most one per pod.
    decided: VecDeque<(PodId, Verdict)>,
    added: u64,
}

struct Waiting {
    pod: Arc<Pod>,
    /// Plugins that have not allowed the pod yet, with the timeout and the deadline of each.
    pending: BTreeMap<&'static str, (Duration, Timestamp)>,
    is_decided: bool,
    added: u64,
}

impl WaitingPods {
    /// A waiting pod; none if it does not wait.
    pub fn get(&self, cluster: &ClusterId, uid: &str) -> Option<WaitingPod> {
        let id = PodId::new(cluster, uid);
        let pod = Arc::clone(&self.state().pods.get(&id)?.pod);
        Some(WaitingPod { list: self.clone(), id, pod })
    }

    /// All waiting pods of a cluster, in the order in which they began to wait.
    pub fn list(&self, cluster: &ClusterId) -> Vec<WaitingPod> {
        let state = self.state();
        let ids = state.order.values().filter(|id| id.cluster == *cluster);
        let waiting = ids.filter_map(|id| Some((id, state.pods.get(id)?)));
        waiting
            .map(|(id, waiting)| WaitingPod {
                list: self.clone(),
                id: id.clone(),
                pod: Arc::clone(&waiting.pod),
            })
            .collect()
    }

    /// Adds a pod that waits for these plugins, with the timeout of each.
    pub(crate) fn add(&self, id: PodId, pod: &Arc<Pod>, waits: &[(&'static str, Duration)], now: Timestamp) {
        let mut state = self.state();
        state.added += 1;
        let (added, pod) = (state.added, Arc::clone(pod));
        let until = |wait: Duration| (wait.min(MAX_WAIT), now + wait.min(MAX_WAIT));
        let pending: BTreeMap<_, _> = waits.iter().map(|(plugin, wait)| (*plugin, until(*wait))).collect();
        let deadlines = pending.iter().map(|(plugin, (_, until))| (*until, id.clone(), *plugin));
        state.deadlines.extend(deadlines);
        state.order.insert(added, id.clone());
        state.pods.insert(id, Waiting { pod, pending, is_decided: false, added });
    }

    /// Waits for a verdict. Cancel-safe.
    pub(crate) async fn decided(&self) {
        self.0.news.notified().await;
    }

    /// Takes all verdicts and removes their pods from the list.
    pub(crate) fn take_decided(&self) -> Vec<(PodId, Verdict)> {
        let mut state = self.state();
        let decided: Vec<_> = state.decided.drain(..).collect();
        for (id, _) in &decided {
            if let Some(waiting) = state.pods.remove(id) {
                state.order.remove(&waiting.added);
            }
        }
        decided
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.state().deadlines.first().map(|(until, ..)| *until)
    }

    /// Rejects the pods whose deadline has passed.
    pub(crate) fn expire(&self, now: Timestamp) {
        let mut state = self.state();
        while let Some((until, id, plugin)) = state.deadlines.first().filter(|(until, ..)| *until <= now) {
            let (until, id, plugin) = (*until, id.clone(), *plugin);
            let waited = state.pods.get(&id).and_then(|waiting| waiting.pending.get(plugin));
            let waited = go_duration(waited.map_or(Duration::ZERO, |(wait, _)| *wait));
            state.deadlines.remove(&(until, id.clone(), plugin));
            let message = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            state.decide(&id, Verdict::Rejected { plugin: plugin.to_owned(), message });
        }
        drop(state);
        self.0.news.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.state().pods.len()
    }

    /// Removes all pods; verdicts that arrive later are ignored.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    fn decide(&self, id: &PodId, verdict: Verdict) -> bool {
        let is_first = self.state().decide(id, verdict);
        if is_first {
            self.0.news.notify_one();
        }
        is_first
    }

    /// The lock is held for a few lines only, in which nothing panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records a verdict. False if the pod does not wait or already has one.
    fn decide(&mut self, id: &PodId, verdict: Verdict) -> bool {
        let Some(waiting) = self.pods.get_mut(id).filter(|waiting| !waiting.is_decided) else { return false };
        waiting.is_decided = true;
        for (plugin, (_, until)) in &waiting.pending {
            self.deadlines.remove(&(*until, id.clone(), plugin));
        }
        self.decided.push_back((id.clone(), verdict));
        true
    }
}

impl fmt::Debug for WaitingPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingPods").field("pods", &self.len()).finish()
    }
}

/// A pod that has a node and waits until Permit plugins allow the binding.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    list: WaitingPods,
    id: PodId,
    pod: Arc<Pod>,
}

impl WaitingPod {
    /// The pod, with its chosen node.
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// Plugins that have not allowed it yet.
    pub fn pending_plugins(&self) -> Vec<&'static str> {
        let state = self.list.state();
        state.pods.get(&self.id).map_or_else(Vec::new, |waiting| waiting.pending.keys().copied().collect())
    }

    /// Records that a plugin allows the pod. It is bound once all pending plugins have.
    pub fn allow(&self, plugin: &str) {
        let mut state = self.list.state();
        let Some(waiting) = state.pods.get_mut(&self.id).filter(|waiting| !waiting.is_decided) else {
            return;
        };
        let allowed = waiting.pending.remove_entry(plugin);
        let is_last = waiting.pending.is_empty();
        if let Some((plugin, (_, until))) = allowed {
            state.deadlines.remove(&(until, self.id.clone(), plugin));
        }
        drop(state);
        if is_last {
            self.list.decide(&self.id, Verdict::Allowed);
        }
    }

    /// Rejects the pod in the name of a plugin. False if there was a verdict already.
    pub fn reject(&self, plugin: &str, message: impl Into<String>) -> bool {
        let verdict = Verdict::Rejected { plugin: plugin.to_owned(), message: message.into() };
        self.list.decide(&self.id, verdict)
    }

    /// Preempts the pod. Unlike a rejected one it is retried without counting as unschedulable. False if
    /// there was a verdict already.
    pub fn preempt(&self, message: impl Into<String>) -> bool {
        self.list.decide(&self.id, Verdict::Preempted { message: message.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(list: &WaitingPods, name: &str, waits: &[(&'static str, Duration)]) -> WaitingPod {
        let mut pod = Pod::default();
        pod.metadata.uid = name.into();
        let cluster = ClusterId::default();
        list.add(PodId::new(&cluster, name), &Arc::new(pod), waits, START);
        list.get(&cluster, name).unwrap()
    }

    fn decided(list: &WaitingPods) -> Vec<(String, Verdict)> {
        list.take_decided().into_iter().map(|(id, verdict)| (id.uid.into(), verdict)).collect()
    }

    fn rejected(plugin: &str, message: &str) -> Verdict {
        Verdict::Rejected { plugin: plugin.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn waiting_pod_is_allowed_once_all_plugins_have_allowed_it() {
        let list = WaitingPods::default();
        let pod = waiting(&list, "p", &[("A", SECOND), ("B", 2 * SECOND)]);
        assert_eq!(pod.pending_plugins(), ["A", "B"]);
        pod.allow("B");
        pod.allow("C");
        assert_eq!((pod.pending_plugins(), decided(&list)), (vec!["A"], Vec::new()));
        pod.allow("A");
        assert!(!pod.reject("A", "too late"));
        assert_eq!(decided(&list), [("p".to_owned(), Verdict::Allowed)]);
        assert_eq!((list.len(), list.deadline()), (0, None));
    }

    #[test]
    fn first_rejection_of_a_waiting_pod_decides() {
        let list = WaitingPods::default();
        let pod = waiting(&list, "p", &[("A", SECOND), ("B", SECOND)]);
        assert!(pod.reject("B", "no"));
        assert!(!pod.reject("A", "no, too") && !pod.preempt("make room"));
        pod.allow("A");
        list.expire(START + 2 * SECOND);
        assert_eq!(decided(&list), [("p".to_owned(), rejected("B", "no"))]);
        assert!(pod.pending_plugins().is_empty() && !pod.reject("A", "it is gone"));
    }

    #[test]
    fn waiting_pod_is_rejected_at_its_deadline() {
        let list = WaitingPods::default();
        waiting(&list, "long", &[("A", Duration::from_secs(3600))]);
        waiting(&list, "short", &[("A", 10 * SECOND), ("B", Duration::from_millis(1500))]);
        assert_eq!(list.deadline(), Some(START + Duration::from_millis(1500)));
        list.expire(START + 2 * SECOND);
        let timeout = rejected("B", "rejected due to timeout after waiting 1.5s at plugin B");
        assert_eq!(decided(&list), [("short".to_owned(), timeout)]);
        assert_eq!(list.deadline(), Some(START + MAX_WAIT));
        list.expire(START + MAX_WAIT);
        let timeout = rejected("A", "rejected due to timeout after waiting 15m0s at plugin A");
        assert_eq!(decided(&list), [("long".to_owned(), timeout)]);
    }

    #[test]
    fn waiting_pods_are_listed_by_cluster_in_order_of_waiting() {
        let list = WaitingPods::default();
        for name in ["b", "a", "c"] {
            waiting(&list, name, &[("A", SECOND)]);
        }
        let names: Vec<_> =
            list.list(&ClusterId::default()).iter().map(|pod| pod.pod().metadata.uid.to_string()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        let other = ClusterId::new("other");
        assert!(list.list(&other).is_empty() && list.get(&other, "a").is_none());
        list.clear();
        assert_eq!((list.len(), list.deadline()), (0, None));
    }

    #[tokio::test]
    async fn verdict_before_the_wait_is_not_missed() {
        let list = WaitingPods::default();
        assert!(waiting(&list, "p", &[("A", SECOND)]).preempt("make room"));
        list.decided().await;
        let verdict = Verdict::Preempted { message: "make room".to_owned() };
        assert_eq!(decided(&list), [("p".to_owned(), verdict)]);
    }
}
