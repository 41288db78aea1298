//! A server and everything that acts on it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_apiserver::{ApiServer, HealthChecks, Registry, ServerInfo};
use coracle_base::clock::RuntimeClock;
use coracle_base::{Clock, Rng, Task, Timestamp};
use coracle_controllers::Settings;
use coracle_kubelet::fake::{self, FakeNodes};
use coracle_runtime::{ClusterId, Manager};
use coracle_store::{CompactionPolicy, memory};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::faults::{Connection, Faults};
use crate::history::History;
use crate::measured::Measurements;
use crate::people::People;

/// When it all begins: some day in 2026.
const BEGINNING: Timestamp = Timestamp::from_millis(1_780_000_000_000);

/// One can go, and another is left. No more, for each renews its lease all the time.
pub(crate) const NODES: u32 = 2;

/// The longest time between two disturbances, and that something is away then.
const MAX_PEACE_S: u64 = 60;
const MAX_AWAY_MS: u64 = 5_000;

/// The longest time that something cannot reach the server, and that nodes cannot, which would be given up. What is
/// cut off for longer also takes longer to come back.
const MAX_CUT_OFF_MS: u64 = 20_000;
const MAX_NODES_CUT_OFF_MS: u64 = 5_000;

/// The longest time between two nodes that go, and that one is away: longer than until its pods are given up.
const MAX_NODE_PEACE_S: u64 = 200;
const MAX_NODE_AWAY_S: u64 = 90;

/// The longest time of which the server knows what happened.
const MAX_HISTORY_S: u64 = 60;

/// How far the clock jumps at most.
const MAX_JUMP_MS: u64 = 60_000;

pub(crate) struct World {
    clock: RuntimeClock,
    server: ApiServer,
    faults: Arc<Faults>,
    pub(crate) people: People,
    pub(crate) history: History,
    components: [Component; 3],
    /// Whether all clusters are followed, and not the only one there is: that is done in another way.
    follows_all: bool,
    rng: Rng,
    /// Dropped with the world.
    _watches: Vec<Task<()>>,
}

/// Something that follows the API and acts on it.
struct Component {
    user: &'static str,
    program: &'static str,
    register: fn(&mut Manager, &Clock),
    connection: Connection,
    max_cut_off_ms: u64,
    running: Option<(CancellationToken, Task<()>)>,
}

impl World {
    pub(crate) async fn begin(rng: &mut Rng, trace: bool) -> Self {
        let clock = RuntimeClock::starting_at(BEGINNING);
        // Whoever has not heard anything for so long before its watch broke off must begin again.
        let max_age = Duration::from_secs(1 + rng.below(MAX_HISTORY_S));
        let compaction = CompactionPolicy { max_age, ..CompactionPolicy::default() };
        let store = memory::open(memory::Options { clock: clock.clock(), compaction });
        let registry = Registry::new(store, clock.clock(), rng.fork());
        let watched = Arc::new(OnceLock::new());
        let measurements = Measurements { clock: clock.clock(), history: Arc::clone(&watched) };
        let server = ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, clock.clock())
            .with_metrics_source(Arc::new(measurements));
        server.bootstrap(&ServerInfo::default()).await.unwrap();
        let (people, faults) = (People::new(&server), Faults::new(rng.fork(), trace));
        let (history, watches) = History::begin(&people, trace).await;
        watched.get_or_init(|| history.clone());
        let components = components();
        let follows_all = rng.one_in(2);
        let mut world = Self {
            clock,
            server,
            faults,
            people,
            history,
            components,
            follows_all,
            rng: rng.fork(),
            _watches: watches,
        };
        create_nodes(&world.server, &world.clock.clock()).await;
        for which in 0..world.components.len() {
            world.start(which);
        }
        world
    }

    fn start(&mut self, which: usize) {
        let component = &mut self.components[which];
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

    /// Stops and starts things and sets the clock, now and then, for ever.
    pub(crate) async fn disturb(&mut self) {
        loop {
            let peace = Duration::from_millis(self.rng.below(MAX_PEACE_S * 1000));
            tokio::time::sleep(peace).await;
            let which = usize::try_from(self.rng.below(self.components.len() as u64)).unwrap();
            match self.rng.below(5) {
                0 => self.jump(),
                1 => self.stop(which).await,
                2 => self.cut_off(which).await,
                // Killed: whatever it was at is never finished.
                _ => self.components[which].running = None,
            }
            // At least a moment, so that what was killed is gone.
            tokio::time::sleep(Duration::from_millis(1 + self.rng.below(MAX_AWAY_MS))).await;
            self.start_missing();
        }
    }

    /// Takes a node away and brings it back, now and then, for ever.
    pub(crate) fn trouble_nodes(&mut self) -> impl Future<Output = ()> + use<> {
        let (people, server, clock, mut rng) =
            (self.people.clone(), self.server.clone(), self.clock.clock(), self.rng.fork());
        async move {
            loop {
                tokio::time::sleep(Duration::from_secs(rng.below(MAX_NODE_PEACE_S))).await;
                let path = format!("/api/v1/nodes/fake-{}", rng.below(u64::from(NODES)));
                people.delete(&path, &Value::Null).await;
                tokio::time::sleep(Duration::from_secs(rng.below(MAX_NODE_AWAY_S))).await;
                create_nodes(&server, &clock).await;
            }
        }
    }

    fn jump(&mut self) {
        let millis = i64::try_from(self.rng.below(MAX_JUMP_MS)).unwrap();
        self.clock.jump(if self.rng.one_in(2) { millis } else { -millis });
    }

    /// Leaves a component alone with what it knows for a while.
    async fn cut_off(&mut self, which: usize) {
        self.components[which].connection.cut();
        let longest = self.components[which].max_cut_off_ms;
        tokio::time::sleep(Duration::from_millis(self.rng.below(longest))).await;
        self.components[which].connection.restore();
    }

    async fn stop(&mut self, which: usize) {
        if let Some((stop, running)) = self.components[which].running.take() {
            stop.cancel();
            running.await.unwrap();
        }
    }

    fn start_missing(&mut self) {
        for which in 0..self.components.len() {
            if self.components[which].running.is_none() {
                self.start(which);
            }
        }
    }

    /// From now on nothing goes wrong.
    pub(crate) async fn calm(&mut self) {
        self.faults.calm();
        self.components.iter().for_each(|component| component.connection.restore());
        create_nodes(&self.server, &self.clock.clock()).await;
        self.start_missing();
    }

    /// Stops everything. All requests there were, in one number, and how many.
    pub(crate) async fn end(mut self) -> (u64, u64) {
        for which in 0..self.components.len() {
            self.stop(which).await;
        }
        self.faults.digest()
    }
}

/// Makes the nodes that are not there.
async fn create_nodes(server: &ApiServer, clock: &Clock) {
    let quiet = Faults::new(Rng::seeded(0), false);
    quiet.calm();
    let client = quiet.client(server, "people", "kubectl", &Connection::default());
    fake::create_nodes(&client, &FakeNodes::new(NODES), clock).await.unwrap();
}

fn components() -> [Component; 3] {
    let component = |user, program, register| {
        let (connection, running) = (Connection::default(), None);
        Component { user, program, register, connection, max_cut_off_ms: MAX_CUT_OFF_MS, running }
    };
    let nodes = component("system:fake-nodes", "kubelet", |manager, clock| {
        let client = manager.client().clone();
        fake::register(manager, &client, clock);
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
