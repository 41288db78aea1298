//! A server with everything that acts on it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_apiserver::{ApiServer, HealthChecks, Registry, ServerInfo};
use coracle_base::clock::RuntimeClock;
use coracle_base::{Clock, Rng, Task, Timestamp};
use coracle_controllers::Settings;
use coracle_fake_node::FakeNodes;
use coracle_runtime::{ClusterId, Manager};
use coracle_store::{CompactionPolicy, memory};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::faults::{Connection, Faults};
use crate::history::History;
use crate::resource_metrics::Measurements;
use crate::users::Users;

/// The start of every run, in 2026.
const BEGINNING: Timestamp = Timestamp::from_millis(1_780_000_000_000);

/// One can be deleted while another is left. Not more, because each renews its lease all the time.
pub(crate) const NODES: u32 = 2;

/// The longest time between two disturbances, and that a component is away.
const MAX_PEACE_S: u64 = 60;
const MAX_AWAY_MS: u64 = 5_000;

/// The longest time that a component is disconnected, and that the kubelets are, which would be marked
/// unreachable otherwise. A longer disconnection also takes longer to recover.
const MAX_CUT_OFF_MS: u64 = 20_000;
const MAX_NODES_CUT_OFF_MS: u64 = 5_000;

/// The longest time between two deletions of nodes, and that a node is away: longer than until its pods are
/// evicted.
const MAX_NODE_PEACE_S: u64 = 200;
const MAX_NODE_AWAY_S: u64 = 90;

/// The longest history that the store keeps.
const MAX_HISTORY_S: u64 = 60;

/// The longest clock jump.
const MAX_JUMP_MS: u64 = 60_000;

pub(crate) struct ControlPlane {
    clock: RuntimeClock,
    server: ApiServer,
    faults: Arc<Faults>,
    pub(crate) users: Users,
    pub(crate) history: History,
    components: [Component; 3],
    /// Use informers of all clusters, and not of the default cluster only; the code paths differ.
    follows_all: bool,
    rng: Rng,
    /// Stopped when dropped.
    _watches: Vec<Task<()>>,
}

/// A component with a manager.
struct Component {
    user: &'static str,
    program: &'static str,
    register: fn(&mut Manager, &Clock),
    connection: Connection,
    max_cut_off_ms: u64,
    running: Option<(CancellationToken, Task<()>)>,
}

impl ControlPlane {
    pub(crate) async fn begin(rng: &mut Rng, trace: bool) -> Self {
        let clock = RuntimeClock::starting_at(BEGINNING);
        // A watch that has been silent for longer before it broke off has to relist.
        let max_age = Duration::from_secs(1 + rng.below(MAX_HISTORY_S));
        let compaction = CompactionPolicy { max_age, ..CompactionPolicy::default() };
        let store = memory::open(memory::Options { clock: clock.clock(), compaction });
        let registry = Registry::new(store, clock.clock(), rng.fork());
        let watched = Arc::new(OnceLock::new());
        let measurements = Measurements { clock: clock.clock(), history: Arc::clone(&watched) };
        let server = ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, clock.clock())
            .with_metrics_source(Arc::new(measurements));
        server.bootstrap(&ServerInfo::default()).await.unwrap();
        let (users, faults) = (Users::new(&server), Faults::new(rng.fork(), trace));
        let (history, watches) = History::begin(&users, trace).await;
        watched.get_or_init(|| history.clone());
        let components = components();
        let follows_all = rng.one_in(2);
        let mut control_plane = Self {
            clock,
            server,
            faults,
            users,
            history,
            components,
            follows_all,
            rng: rng.fork(),
            _watches: watches,
        };
        create_nodes(&control_plane.server, &control_plane.clock.clock()).await;
        for index in 0..control_plane.components.len() {
            control_plane.start(index);
        }
        control_plane
    }

    fn start(&mut self, index: usize) {
        let component = &mut self.components[index];
        let client =
            self.faults.client(&self.server, component.user, component.program, &component.connection);
        let clock = self.clock.clock();
        let manager = if self.follows_all {
            Manager::all_clusters(client)
        } else {
            Manager::new(client, ClusterId::default())
        };
        let manager = manager.with_clock(clock.clone());
        let mut manager = manager.with_rng(self.rng.fork());
        (component.register)(&mut manager, &clock);
        let stop = CancellationToken::new();
        let running = Task::spawn(component.program, manager.run(stop.clone()));
        component.running = Some((stop, running));
    }

    /// Stops, disconnects and restarts components and sets the clock at random times, for ever.
    pub(crate) async fn disturb(&mut self) {
        loop {
            let peace = Duration::from_millis(self.rng.below(MAX_PEACE_S * 1000));
            tokio::time::sleep(peace).await;
            let index = usize::try_from(self.rng.below(self.components.len() as u64)).unwrap();
            match self.rng.below(5) {
                0 => self.jump(),
                1 => self.stop(index).await,
                2 => self.cut_off(index).await,
                // Killed: its reconciles in progress are never completed.
                _ => self.components[index].running = None,
            }
            // At least a millisecond, so that the killed component is gone.
            tokio::time::sleep(Duration::from_millis(1 + self.rng.below(MAX_AWAY_MS))).await;
            self.start_missing();
        }
    }

    /// Deletes and recreates nodes at random times, for ever.
    pub(crate) fn disturb_nodes(&mut self) -> impl Future<Output = ()> + use<> {
        let (users, server, clock, mut rng) =
            (self.users.clone(), self.server.clone(), self.clock.clock(), self.rng.fork());
        async move {
            loop {
                tokio::time::sleep(Duration::from_secs(rng.below(MAX_NODE_PEACE_S))).await;
                let path = format!("/api/v1/nodes/fake-{}", rng.below(u64::from(NODES)));
                users.delete(&path, &Value::Null).await;
                tokio::time::sleep(Duration::from_secs(rng.below(MAX_NODE_AWAY_S))).await;
                create_nodes(&server, &clock).await;
            }
        }
    }

    fn jump(&mut self) {
        let millis = i64::try_from(self.rng.below(MAX_JUMP_MS)).unwrap();
        self.clock.jump(if self.rng.one_in(2) { millis } else { -millis });
    }

    /// Disconnects a component for a while.
    async fn cut_off(&mut self, index: usize) {
        self.components[index].connection.cut();
        let longest = self.components[index].max_cut_off_ms;
        tokio::time::sleep(Duration::from_millis(self.rng.below(longest))).await;
        self.components[index].connection.restore();
    }

    async fn stop(&mut self, index: usize) {
        if let Some((stop, running)) = self.components[index].running.take() {
            stop.cancel();
            running.await.unwrap();
        }
    }

    fn start_missing(&mut self) {
        for index in 0..self.components.len() {
            if self.components[index].running.is_none() {
                self.start(index);
            }
        }
    }

    /// Ends all faults and restores all components.
    pub(crate) async fn end_disturbances(&mut self) {
        self.faults.disable();
        self.components.iter().for_each(|component| component.connection.restore());
        create_nodes(&self.server, &self.clock.clock()).await;
        self.start_missing();
    }

    /// Stops all components. Returns the digest and the number of requests.
    pub(crate) async fn end(mut self) -> (u64, u64) {
        for index in 0..self.components.len() {
            self.stop(index).await;
        }
        self.faults.digest()
    }
}

/// Creates the nodes that do not exist.
async fn create_nodes(server: &ApiServer, clock: &Clock) {
    let quiet = Faults::new(Rng::seeded(0), false);
    quiet.disable();
    let client = quiet.client(server, "users", "kubectl", &Connection::default());
    coracle_fake_node::create_nodes(&client, &FakeNodes::new(NODES), clock).await.unwrap();
}

fn components() -> [Component; 3] {
    let component = |user, program, register| {
        let (connection, running) = (Connection::default(), None);
        Component { user, program, register, connection, max_cut_off_ms: MAX_CUT_OFF_MS, running }
    };
    let nodes = component("system:fake-nodes", "kubelet", |manager, clock| {
        let client = manager.client().clone();
        coracle_fake_node::register(manager, &client, clock);
    });
    [
        component("system:kube-controller-manager", "kube-controller-manager", |manager, clock| {
            coracle_controllers::register(manager, &Settings::new(clock.clone()));
        }),
        component("system:kube-scheduler", "kube-scheduler", |manager, clock| {
            coracle_scheduler::register(manager, &coracle_scheduler::Config::default(), clock).unwrap();
        }),
        Component { max_cut_off_ms: MAX_NODES_CUT_OFF_MS, ..nodes },
    ]
}
