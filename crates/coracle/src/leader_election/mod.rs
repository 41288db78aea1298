//! Leader election for the controller and scheduler managers.
//!
//! If several processes share a store, only the holder of a lease runs a manager. When it loses the lease,
//! the manager is dropped at once, because another process may start its own, which completes interrupted
//! reconciles. A new manager is created whenever the lease is acquired again. All writes of a manager are
//! fenced by the term of the lease in which it was created: requests that a paused process completes after
//! it resumed change nothing.

use std::pin::pin;
use std::sync::Arc;

use coracle_apiserver::{ApiServer, Fence, HeldLease};
use coracle_base::metrics::Gauge;
use coracle_base::{Clock, Metrics, Task};
use coracle_runtime::{ClusterId, Idle, IdleReport, LeaderLease, LeaseTerm, Manager, ObjectKey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::in_process::{self, Caller};
use crate::pki;
use crate::supervise::{Components, Failure};

/// The namespace of the leases, as for Kubernetes' own components.
const NAMESPACE: &str = "kube-system";

/// This process among several on one store.
pub(crate) struct Replica {
    /// Unique holder identity.
    identity: String,
}

impl Replica {
    /// With an identity of the form that Kubernetes' components use.
    pub(crate) fn new(uid: &str) -> Self {
        Self { identity: format!("{}_{uid}", host_name()) }
    }
}

/// The host name, as Kubernetes' components determine it.
fn host_name() -> String {
    pki::host_name().map_or_else(|| "localhost".to_owned(), |name| name.to_string())
}

/// A manager that runs always, or while this process is the leader.
pub(crate) struct LeaderElected {
    /// The idle check of the running manager; none while none runs.
    idle: watch::Receiver<Option<Idle>>,
    manager_metrics: ManagerMetrics,
    stop: CancellationToken,
    running: Components,
}

/// The metrics of a manager. They hold no reference to the server, so that the server can hold them.
#[derive(Clone)]
pub(crate) struct ManagerMetrics {
    /// The leader election metric, if there is a lease; also exposed while no manager runs.
    leading: Metrics,
    /// The metrics of the running manager.
    running: watch::Receiver<Option<Metrics>>,
}

/// The text of all metrics, a part of the metrics endpoint.
pub(crate) fn metrics(managers: &[ManagerMetrics]) -> String {
    let all: Vec<Metrics> = managers
        .iter()
        .flat_map(|manager_metrics| {
            [Some(manager_metrics.leading.clone()), manager_metrics.running.borrow().clone()]
        })
        .flatten()
        .collect();
    Metrics::text_of(&all)
}

/// Publishes the idle check and the metrics of the running manager.
#[derive(Default)]
struct StatusBoard {
    idle: watch::Sender<Option<Idle>>,
    metrics: watch::Sender<Option<Metrics>>,
    leading: Metrics,
    leads: Arc<Gauge>,
}

impl StatusBoard {
    /// Also exposes whether the lease with this name is held.
    fn with_lease(name: &str) -> Self {
        let leading = Metrics::default();
        let help = "Whether this process holds the lease.";
        let leads = leading.gauges("leader_election_master_status", help, ["name"]).with([name]);
        Self { leading, leads, ..Self::default() }
    }

    fn manager_metrics(&self) -> ManagerMetrics {
        ManagerMetrics { leading: self.leading.clone(), running: self.metrics.subscribe() }
    }

    fn publish(&self, manager: &Manager) {
        self.idle.send_replace(Some(manager.idle()));
        self.metrics.send_replace(Some(manager.metrics().clone()));
        self.leads.set(1.0);
    }

    fn clear(&self) {
        self.idle.send_replace(None);
        self.metrics.send_replace(None);
        self.leads.set(0.0);
    }
}

/// Why a manager ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// A shutdown was requested.
    Stopped,
    /// The lease was lost.
    Lost,
    /// It failed.
    Failed,
}

impl LeaderElected {
    /// Runs the controllers that `register` adds to a manager for all clusters, as Kubernetes' `component`
    /// does. With a `replica`, only while this process is the leader; all writes have to be bound to the
    /// fence passed to `register`.
    pub(crate) fn start(
        component: &'static str,
        (server, caller): (&ApiServer, Caller),
        clock: &Clock,
        replica: Option<&Replica>,
        register: impl Fn(&mut Manager, Option<&Fence>) + Send + 'static,
    ) -> Self {
        let (its_server, its_clock) = (server.clone(), clock.clone());
        let make = move |fence: Option<Fence>| {
            let client = in_process::fenced_client(its_server.clone(), caller, fence.clone());
            let mut manager =
                Manager::all_clusters(client).with_clock(its_clock.clone()).with_host_name(host_name());
            register(&mut manager, fence.as_ref());
            manager
        };
        let Some(replica) = replica else { return Self::always(component, make(None)) };
        let key = ObjectKey::namespaced(ClusterId::default(), NAMESPACE, component);
        // The lease itself is written without a fence: each write names the version that it replaces.
        let client = in_process::client(server.clone(), caller);
        let lease = LeaderLease::new(&client, key, &*replica.identity, clock.clone());
        let server = server.clone();
        Self::while_leading(component, lease, move |lease, term| {
            Some(make(Some(fence(&server, lease, term)?)))
        })
    }

    /// Runs a manager until it is stopped.
    fn always(name: &'static str, manager: Manager) -> Self {
        let (status_board, stop) = (StatusBoard::default(), CancellationToken::new());
        status_board.publish(&manager);
        Self::run(name, status_board, stop, |status_board, stop| async move {
            manager.run(stop).await;
            status_board.clear();
        })
    }

    /// Runs a new manager each time the lease is acquired, until it is stopped.
    fn while_leading(
        name: &'static str,
        lease: LeaderLease,
        make: impl Fn(&LeaderLease, &LeaseTerm) -> Option<Manager> + Send + 'static,
    ) -> Self {
        let (status_board, stop) = (StatusBoard::with_lease(name), CancellationToken::new());
        Self::run(name, status_board, stop, move |status_board, stop| {
            lead(name, lease, make, status_board, stop)
        })
    }

    fn run<Run: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        status_board: StatusBoard,
        stop: CancellationToken,
        run: impl FnOnce(StatusBoard, CancellationToken) -> Run,
    ) -> Self {
        let (idle, manager_metrics) = (status_board.idle.subscribe(), status_board.manager_metrics());
        let running = Components::new(vec![Task::spawn(name, run(status_board, stop.clone()))]);
        Self { idle, manager_metrics, stop, running }
    }

    pub(crate) fn manager_metrics(&self) -> ManagerMetrics {
        self.manager_metrics.clone()
    }

    /// Waits until the manager is idle. Without the lease, waits until it is acquired.
    pub(crate) async fn run_until_idle(&self) -> kube::Result<IdleReport> {
        let mut running = self.idle.clone();
        loop {
            let idle = running.wait_for(Option::is_some).await.ok().and_then(|idle| idle.clone());
            // It has ended; the reason is returned by [`Self::failed`].
            let Some(idle) = idle else { return std::future::pending().await };
            tokio::select! {
                // Both are cancel-safe: they only wait.
                report = idle.run_until_idle() => return report,
                Ok(()) = running.changed() => {}
            }
        }
    }

    /// Waits until it ends without having been stopped. Cancel-safe.
    pub(crate) async fn failed(&mut self) -> Failure {
        self.running.first_failure().await
    }

    /// Waits for reconciles in progress and releases the lease.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.ended().await;
    }
}

/// The fence of writes for a term of the lease.
fn fence(server: &ApiServer, lease: &LeaderLease, term: &LeaseTerm) -> Option<Fence> {
    let key = lease.key();
    let held = HeldLease {
        cluster: key.cluster().as_str(),
        namespace: key.namespace(),
        name: key.name(),
        uid: &term.uid,
        holder: lease.identity(),
        transitions: term.transitions,
    };
    server
        .fence(&held)
        .inspect_err(|error| tracing::error!(lease = %key, %error, "cannot fence writes by the lease"))
        .ok()
}

/// Runs a manager whenever the lease is held.
async fn lead(
    name: &'static str,
    mut lease: LeaderLease,
    make: impl Fn(&LeaderLease, &LeaseTerm) -> Option<Manager>,
    status_board: StatusBoard,
    stop: CancellationToken,
) {
    while let Some(term) = stop.run_until_cancelled(lease.acquire()).await {
        tracing::info!(name, "leading");
        let Some(manager) = make(&lease, &term) else { return };
        status_board.publish(&manager);
        let ended = serve(name, manager, &mut lease, &stop).await;
        status_board.clear();
        match ended {
            Ended::Lost => tracing::warn!(name, "lost the lease; waiting until it is free"),
            Ended::Stopped | Ended::Failed => return,
        }
    }
}

/// Runs a manager while the lease is held. The lease is released only after everything has stopped.
async fn serve(
    name: &'static str,
    manager: Manager,
    lease: &mut LeaderLease,
    stop: &CancellationToken,
) -> Ended {
    let (stopping, releasing) = (stop.child_token(), CancellationToken::new());
    let mut running = pin!(Task::spawn(name, manager.run(stopping)));
    let mut holding = pin!(lease.hold(&releasing));
    tokio::select! {
        // Both may be dropped: a lost lease has to cut off the manager.
        () = &mut holding => return Ended::Lost,
        ended = &mut running => {
            if let Err(error) = ended {
                tracing::error!(name, %error, "a manager failed");
            }
        }
    }
    releasing.cancel();
    holding.await;
    if stop.is_cancelled() { Ended::Stopped } else { Ended::Failed }
}

#[cfg(test)]
mod tests;
