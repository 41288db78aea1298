//! Managers that run: that of the controllers, and that of the scheduler.
//!
//! Where several processes share a store, only the one that holds a lease runs a manager. One that loses it
//! is cut off at once, for another may begin; what it has begun another finds and ends. A new one is made
//! whenever the lease is ours again.

use std::pin::pin;
use std::sync::Arc;

use coracle_base::metrics::Gauge;
use coracle_base::{Clock, Metrics, Task};
use coracle_runtime::{ClusterId, Idle, IdleReport, LeaderLease, Manager, ObjectKey};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
    /// processes on one store, one does.
    pub(crate) fn start(
        component: &'static str,
        client: &Client,
        clock: &Clock,
        replica: Option<&Replica>,
        register: impl Fn(&mut Manager) + Send + 'static,
    ) -> Self {
        let (its_client, its_clock) = (client.clone(), clock.clone());
        let make = move || {
            let mut manager = Manager::everywhere(its_client.clone())
                .with_clock(its_clock.clone())
                .with_host_name(host_name());
            register(&mut manager);
            manager
        };
        let Some(replica) = replica else { return Self::always(component, make()) };
        let key = ObjectKey::namespaced(ClusterId::default(), NAMESPACE, component);
        let lease = LeaderLease::new(client, key, &*replica.identity, clock.clone());
        Self::while_leading(component, lease, make)
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
        make: impl Fn() -> Manager + Send + 'static,
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

/// Runs a manager whenever the lease is ours.
async fn lead(
    name: &'static str,
    mut lease: LeaderLease,
    make: impl Fn() -> Manager,
    board: Board,
    stop: CancellationToken,
) {
    while stop.run_until_cancelled(lease.acquire()).await.is_some() {
        tracing::info!(name, "leading");
        let manager = make();
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use coracle_apiserver::{ApiServer, HealthChecks, Registry, Site};
    use coracle_base::Rng;
    use coracle_runtime::{Objects, Written};
    use coracle_store::memory;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::api::{DeleteParams, Patch, PatchParams};
    use serde_json::{Value, json};

    use super::*;
    use crate::in_process;

    const COMPONENT: &str = "kube-controller-manager";

    /// Longer than it takes until a lease that is free is taken. Time stands still meanwhile.
    const LIMIT: Duration = Duration::from_secs(60);

    async fn server() -> Client {
        let clock = Clock::system();
        let store = memory::open(memory::Options::default());
        let registry = Registry::new(store, clock.clone(), Rng::seeded(1));
        let server = ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, clock);
        server.bootstrap(&Site::default()).await.unwrap();
        in_process::client(server, in_process::CONTROLLERS)
    }

    /// A process that counts how often it began to lead.
    struct Process {
        managed: Managed,
        begun: Arc<AtomicUsize>,
    }

    impl Process {
        fn start(client: &Client, name: &str) -> Self {
            let begun = Arc::<AtomicUsize>::default();
            let (count, replica) = (Arc::clone(&begun), Replica { identity: name.to_owned() });
            let register = move |_: &mut Manager| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let managed = Managed::start(COMPONENT, client, &Clock::system(), Some(&replica), register);
            Self { managed, begun }
        }

        async fn leads(&self, is_leading: bool) {
            let mut idle = self.managed.idle.clone();
            let changed = idle.wait_for(|idle| idle.is_some() == is_leading);
            drop(tokio::time::timeout(LIMIT, changed).await.unwrap().unwrap());
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::Relaxed)
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced(ClusterId::default(), NAMESPACE, COMPONENT)
    }

    async fn holder(leases: &Objects) -> Value {
        let lease: Value = leases.get(&key()).await.unwrap().unwrap();
        lease["spec"]["holderIdentity"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_several_leads_and_the_next_when_it_stops() {
        let client = server().await;
        let leases = Objects::of::<Lease>(&client);
        let first = Process::start(&client, "first");
        first.leads(true).await;
        assert_eq!(holder(&leases).await, "first");
        let second = Process::start(&client, "second");
        // It asks some times in vain.
        tokio::time::sleep(LIMIT / 10).await;
        assert_eq!((first.begun(), second.begun()), (1, 0));
        first.managed.stop().await;
        assert_eq!(holder(&leases).await, "", "given back");
        second.leads(true).await;
        assert_eq!(holder(&leases).await, "second");
        assert!(second.managed.run_until_idle().await.is_ok());
        second.managed.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_loses_the_lease_stops_and_begins_anew_when_it_is_back() {
        let client = server().await;
        let leases = Objects::of::<Lease>(&client);
        let process = Process::start(&client, "first");
        process.leads(true).await;
        let stolen = Patch::Merge(json!({"spec": {"holderIdentity": "another"}}));
        leases.patch::<Written>(&key(), &PatchParams::default(), &stolen).await.unwrap();
        process.leads(false).await;
        let told = metrics(&[process.managed.figures()]);
        let samples: Vec<_> = told.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(samples, [r#"leader_election_master_status{name="kube-controller-manager"} 0"#]);
        leases.delete(&key(), &DeleteParams::default()).await.unwrap();
        process.leads(true).await;
        assert_eq!(process.begun(), 2, "a new manager");
        process.managed.stop().await;
    }
}
