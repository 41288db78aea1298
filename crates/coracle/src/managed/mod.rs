//! Managers that run: that of the controllers, and that of the scheduler.
//!
//! Where several processes share a store, only the one that holds a lease runs a manager. One that loses it
//! is cut off at once, for another may begin; what it has begun another finds and ends. A new one is made
//! whenever the lease is ours again. All that a manager writes is fenced by the term of the lease in which it was
//! made: requests that a stopped process finishes after it woke up change nothing.

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

/// Where the leases are, as upstream's.
const NAMESPACE: &str = "kube-system";

/// One of several processes on one store.
pub(crate) struct Replica {
    /// What no other one is called.
    identity: String,
}

impl Replica {
    /// One that is called as upstream's components call themselves.
    pub(crate) fn new(uid: &str) -> Self {
        Self { identity: format!("{}_{uid}", host_name()) }
    }
}

/// What upstream's components say where they run.
fn host_name() -> String {
    pki::host_name().map_or_else(|| "localhost".to_owned(), |name| name.to_string())
}

/// A manager that runs, or that waits until it may.
pub(crate) struct Managed {
    /// What tells whether the one that runs is at rest; none while none runs.
    idle: watch::Receiver<Option<Idle>>,
    figures: Figures,
    stop: CancellationToken,
    running: Components,
}

/// What is counted by a manager. It knows nobody who knows the server, so the server may have it.
#[derive(Clone)]
pub(crate) struct Figures {
    /// Whether the lease is held, if there is one; also told while none runs.
    leading: Metrics,
    /// What the one that runs counts.
    running: watch::Receiver<Option<Metrics>>,
}

/// All of that, as a part of the page of metrics.
pub(crate) fn metrics(managers: &[Figures]) -> String {
    let all: Vec<Metrics> = managers
        .iter()
        .flat_map(|figures| [Some(figures.leading.clone()), figures.running.borrow().clone()])
        .flatten()
        .collect();
    Metrics::text_of(&all)
}

/// What is told of the manager that runs.
#[derive(Default)]
struct Board {
    idle: watch::Sender<Option<Idle>>,
    metrics: watch::Sender<Option<Metrics>>,
    leading: Metrics,
    leads: Arc<Gauge>,
}

impl Board {
    /// Also tells whether the lease of this name is held.
    fn with_lease(name: &str) -> Self {
        let leading = Metrics::default();
        let help = "Whether this process holds the lease.";
        let leads = leading.gauges("leader_election_master_status", help, ["name"]).with([name]);
        Self { leading, leads, ..Self::default() }
    }

    fn figures(&self) -> Figures {
        Figures { leading: self.leading.clone(), running: self.metrics.subscribe() }
    }

    fn show(&self, manager: &Manager) {
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

/// Why a manager does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It was told to.
    Stopped,
    /// Another one may run.
    Lost,
    /// It should not have.
    Failed,
}

impl Managed {
    /// Runs what `register` adds to a manager for all clusters: what upstream's `component` does. Of several
    /// processes on one store, one does; all that it writes is to be bound to the fence that `register` is given.
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
        // The lease itself is written without a fence: each write of it names the version that it replaces.
        let client = in_process::client(server.clone(), caller);
        let lease = LeaderLease::new(&client, key, &*replica.identity, clock.clone());
        let server = server.clone();
        Self::while_leading(component, lease, move |lease, term| {
            Some(make(Some(fence(&server, lease, term)?)))
        })
    }

    /// Runs a manager until it is stopped.
    fn always(name: &'static str, manager: Manager) -> Self {
        let (board, stop) = (Board::default(), CancellationToken::new());
        board.show(&manager);
        Self::run(name, board, stop, |board, stop| async move {
            manager.run(stop).await;
            board.clear();
        })
    }

    /// Runs a manager while a lease is held, each time a new one, until it is stopped.
    fn while_leading(
        name: &'static str,
        lease: LeaderLease,
        make: impl Fn(&LeaderLease, &LeaseTerm) -> Option<Manager> + Send + 'static,
    ) -> Self {
        let (board, stop) = (Board::with_lease(name), CancellationToken::new());
        Self::run(name, board, stop, move |board, stop| lead(name, lease, make, board, stop))
    }

    fn run<Run: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        board: Board,
        stop: CancellationToken,
        run: impl FnOnce(Board, CancellationToken) -> Run,
    ) -> Self {
        let (idle, figures) = (board.idle.subscribe(), board.figures());
        let running = Components::new(vec![Task::spawn(name, run(board, stop.clone()))]);
        Self { idle, figures, stop, running }
    }

    /// What it counts.
    pub(crate) fn figures(&self) -> Figures {
        self.figures.clone()
    }

    /// Returns when it has nothing left to do. One that does not run yet, because another has the lease, is
    /// waited for.
    pub(crate) async fn run_until_idle(&self) -> kube::Result<IdleReport> {
        let mut running = self.idle.clone();
        loop {
            let idle = running.wait_for(Option::is_some).await.ok().and_then(|idle| idle.clone());
            // It has ended, and whoever wants to know why asks for that.
            let Some(idle) = idle else { return std::future::pending().await };
            tokio::select! {
                // Both may be dropped: they only wait.
                report = idle.run_until_idle() => return report,
                Ok(()) = running.changed() => {}
            }
        }
    }

    /// Waits until it ends, which it does only when it is stopped. Safe to drop.
    pub(crate) async fn failed(&mut self) -> Failure {
        self.running.first_failure().await
    }

    /// Lets it finish what it is at, and gives the lease back.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.ended().await;
    }
}

/// What binds writes to a term of the lease.
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

/// Runs a manager whenever the lease is ours.
async fn lead(
    name: &'static str,
    mut lease: LeaderLease,
    make: impl Fn(&LeaderLease, &LeaseTerm) -> Option<Manager>,
    board: Board,
    stop: CancellationToken,
) {
    while let Some(term) = stop.run_until_cancelled(lease.acquire()).await {
        tracing::info!(name, "leading");
        let Some(manager) = make(&lease, &term) else { return };
        board.show(&manager);
        let ended = serve(name, manager, &mut lease, &stop).await;
        board.clear();
        match ended {
            Ended::Lost => tracing::warn!(name, "lost the lease; waiting until it is free"),
            Ended::Stopped | Ended::Failed => return,
        }
    }
}

/// Runs a manager for as long as the lease is held. It is given back only when nothing runs any more.
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
        // Both may be dropped: what is dropped with them is cut off, as it should be.
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
