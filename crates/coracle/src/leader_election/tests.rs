//! Leader election of several processes on one in-memory store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coracle_apiserver::{HealthChecks, LimitsChange, Registry, ServerInfo};
use coracle_base::clock::RuntimeClock;
use coracle_base::{Rng, Timestamp};
use coracle_runtime::{Objects, Written};
use coracle_store::memory;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::*;

const COMPONENT: &str = "kube-controller-manager";

/// Longer than it takes to acquire a free lease. The clock is paused meanwhile.
const LIMIT: Duration = Duration::from_secs(60);

/// Longer than an expired lease blocks other candidates, including their retry interval.
const TAKEOVER: Duration = Duration::from_secs(15 + 2 * 4);

/// A server with a settable clock that advances only while all tasks wait.
async fn server() -> (ApiServer, RuntimeClock) {
    let clock = RuntimeClock::starting_at(Timestamp::from_millis(1_780_000_000_000));
    let store = memory::open(memory::Options { clock: clock.clock(), ..memory::Options::default() });
    let registry = Registry::new(store, clock.clock(), Rng::seeded(1));
    let server = ApiServer::new(HealthChecks::new(CancellationToken::new()), registry, clock.clock());
    server.bootstrap(&ServerInfo::default()).await.unwrap();
    (server, clock)
}

fn plain_client(server: &ApiServer) -> Client {
    in_process::client(server.clone(), in_process::CONTROLLERS)
}

/// A process that counts how often it became the leader.
struct Process {
    elected: LeaderElected,
    starts: Arc<AtomicUsize>,
    /// The client of its manager.
    client: Arc<Mutex<Option<Client>>>,
}

impl Process {
    fn start(server: &ApiServer, clock: &RuntimeClock, name: &str) -> Self {
        let (starts, client) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Option<Client>>>::default());
        let (count, slot) = (Arc::clone(&starts), Arc::clone(&client));
        let replica = Replica { identity: name.to_owned() };
        let register = move |manager: &mut Manager, _: Option<&Fence>| {
            count.fetch_add(1, Ordering::Relaxed);
            *slot.lock().unwrap() = Some(manager.client().clone());
        };
        let component = (server, in_process::CONTROLLERS);
        let elected = LeaderElected::start(COMPONENT, component, &clock.clock(), Some(&replica), register);
        Self { elected, starts, client }
    }

    async fn leads(&self, is_leading: bool) {
        let mut idle = self.elected.idle.clone();
        let changed = idle.wait_for(|idle| idle.is_some() == is_leading);
        drop(tokio::time::timeout(LIMIT, changed).await.unwrap().unwrap());
    }

    /// Waits until it leads for the given number of times.
    async fn leads_for_time(&self, time: usize) {
        let mut idle = self.elected.idle.clone();
        let changed = idle.wait_for(|idle| idle.is_some() && self.starts() == time);
        drop(tokio::time::timeout(LIMIT, changed).await.unwrap().unwrap());
    }

    fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap().clone().unwrap()
    }
}

fn key() -> ObjectKey {
    ObjectKey::namespaced(ClusterId::default(), NAMESPACE, COMPONENT)
}

async fn holder(leases: &Objects) -> Value {
    let lease: Value = leases.get(&key()).await.unwrap().unwrap();
    lease["spec"]["holderIdentity"].clone()
}

/// Takes the lease away from its holder.
async fn steal(leases: &Objects) {
    let stolen = Patch::Merge(json!({"spec": {"holderIdentity": "another"}}));
    leases.patch::<Written>(&key(), &PatchParams::default(), &stolen).await.unwrap();
}

/// Creates a ConfigMap in a cluster. The error is the status code of a rejection.
async fn write(client: &Client, cluster: &str, name: &str) -> Result<(), u16> {
    let beside = ObjectKey::namespaced(ClusterId::new(cluster), "default", "");
    let map = json!({"metadata": {"name": name}});
    match Objects::of::<ConfigMap>(client).create::<Written>(&beside, &map).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

async fn exists(server: &ApiServer, cluster: &str, name: &str) -> bool {
    let key = ObjectKey::namespaced(ClusterId::new(cluster), "default", name);
    Objects::of::<ConfigMap>(&plain_client(server)).get::<Written>(&key).await.unwrap().is_some()
}

/// A lease acquired without a manager, and a client fenced by it.
async fn acquired(server: &ApiServer, clock: &RuntimeClock, name: &str) -> (LeaderLease, Client) {
    let mut lease = LeaderLease::new(&plain_client(server), key(), name, clock.clock());
    let term = lease.acquire().await;
    let fence = fence(server, &lease, &term);
    assert!(fence.is_some());
    (lease, in_process::fenced_client(server.clone(), in_process::CONTROLLERS, fence))
}

#[tokio::test(start_paused = true)]
async fn next_process_leads_when_the_leader_stops() {
    let (server, clock) = server().await;
    let leases = Objects::of::<Lease>(&plain_client(&server));
    let first = Process::start(&server, &clock, "first");
    first.leads(true).await;
    assert_eq!(holder(&leases).await, "first");
    let second = Process::start(&server, &clock, "second");
    // Let it try several times.
    tokio::time::sleep(LIMIT / 10).await;
    assert_eq!((first.starts(), second.starts()), (1, 0));
    first.elected.stop().await;
    assert_eq!(holder(&leases).await, "", "the lease was released");
    second.leads(true).await;
    assert_eq!(holder(&leases).await, "second");
    assert!(second.elected.run_until_idle().await.is_ok());
    second.elected.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leader_that_loses_its_lease_stops_and_starts_a_new_manager_later() {
    let (server, clock) = server().await;
    let leases = Objects::of::<Lease>(&plain_client(&server));
    let process = Process::start(&server, &clock, "first");
    process.leads(true).await;
    steal(&leases).await;
    process.leads(false).await;
    let text = metrics(&[process.elected.manager_metrics()]);
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, [r#"leader_election_master_status{name="kube-controller-manager"} 0"#]);
    leases.delete(&key(), &DeleteParams::default()).await.unwrap();
    process.leads(true).await;
    assert_eq!(process.starts(), 2, "a new manager");
    process.elected.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leader_that_lost_its_lease_writes_nothing() {
    let (server, clock) = server().await;
    server.registry().create_cluster("blue", LimitsChange::default()).await.unwrap();
    // The first process is paused here: it does not renew its lease, and does not notice the loss.
    let (_first, first_client) = acquired(&server, &clock, "first").await;
    assert_eq!(write(&first_client, "default", "a").await, Ok(()));
    let second = tokio::time::timeout(TAKEOVER, acquired(&server, &clock, "second")).await;
    let (_second, second_client) = second.unwrap();
    for cluster in ["default", "blue"] {
        assert_eq!(write(&first_client, cluster, "late").await, Err(403), "in {cluster}");
        assert!(!exists(&server, cluster, "late").await);
        assert_eq!(write(&second_client, cluster, "b").await, Ok(()), "in {cluster}");
    }
    let late = Objects::of::<ConfigMap>(&first_client);
    let at = ObjectKey::namespaced(ClusterId::default(), "default", "a");
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    assert!(late.patch::<Written>(&at, &PatchParams::default(), &patch).await.is_err());
    assert!(late.delete(&at, &DeleteParams::default()).await.is_err());
    assert!(exists(&server, "default", "a").await);
}

#[tokio::test(start_paused = true)]
async fn leader_writes_while_it_renews_its_lease_and_not_in_a_later_term() {
    let (server, clock) = server().await;
    let (mut lease, client) = acquired(&server, &clock, "first").await;
    let stop = CancellationToken::new();
    let writing = async {
        for number in 0..8 {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert_eq!(write(&client, "default", &format!("m-{number}")).await, Ok(()));
        }
        stop.cancel();
    };
    tokio::join!(lease.hold(&stop), writing);
    assert_eq!(write(&client, "default", "released").await, Err(403));
    let (_second, _) = acquired(&server, &clock, "second").await;
    let again = tokio::time::timeout(TAKEOVER, acquired(&server, &clock, "first")).await;
    let (_again, later_client) = again.unwrap();
    assert_eq!(write(&client, "default", "late").await, Err(403), "the same holder, but a later term");
    assert_eq!(write(&later_client, "default", "now").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn manager_that_lost_its_lease_is_fenced_before_it_notices() {
    let (server, clock) = server().await;
    let leases = Objects::of::<Lease>(&plain_client(&server));
    let process = Process::start(&server, &clock, "first");
    process.leads(true).await;
    let client = process.client();
    assert_eq!(write(&client, "default", "a").await, Ok(()));
    steal(&leases).await;
    assert_eq!(write(&client, "default", "late").await, Err(403));
    // A lease that is deleted and created again begins with as many transitions as the first one.
    leases.delete(&key(), &DeleteParams::default()).await.unwrap();
    assert_eq!(write(&client, "default", "late").await, Err(403));
    process.leads_for_time(2).await;
    assert_eq!(write(&client, "default", "late").await, Err(403), "the term is over");
    assert_eq!(write(&process.client(), "default", "now").await, Ok(()));
    process.elected.stop().await;
}

#[tokio::test(start_paused = true)]
async fn wall_clock_that_is_set_back_does_not_prolong_a_lease() {
    let (server, clock) = server().await;
    let (_first, _) = acquired(&server, &clock, "first").await;
    let setting_back = async {
        // After the second process has seen the lease.
        tokio::time::sleep(Duration::from_secs(3)).await;
        clock.jump(-3_600_000);
    };
    let second = tokio::time::timeout(TAKEOVER, acquired(&server, &clock, "second"));
    let (second, ()) = tokio::join!(second, setting_back);
    assert!(second.is_ok(), "the second process did not take over");
}
