//! Several processes on one etcd: each serves the API, and one of them runs controllers and scheduler.
//!
//! Needs `etcd` in the PATH.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coracle::clusters::LimitsChange;
use coracle::config::EtcdConfig;
use coracle::kube;
use coracle::kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use coracle::kube::core::Status;
use coracle::{Config, Coracle, Handle, StoreConfig};
use coracle_base::Task;
use futures_util::AsyncReadExt;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use serde_json::json;
use support::wait_for;
use tempfile::TempDir;

/// Upper bound for etcd to start, and for a lease to be acquired, on a machine busy with other tests.
const LIMIT: Duration = Duration::from_secs(60);

/// An etcd with one member, stopped when dropped.
struct Etcd {
    process: Child,
    client: SocketAddr,
    _dir: TempDir,
}

impl Etcd {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [client, peer] = listeners.map(|listener| listener.local_addr().unwrap());
        let mut command = Command::new("etcd");
        command.arg(format!("--data-dir={}", dir.path().display()));
        for option in ["listen-client-urls", "advertise-client-urls"] {
            command.arg(format!("--{option}=http://{client}"));
        }
        for option in ["listen-peer-urls", "initial-advertise-peer-urls"] {
            command.arg(format!("--{option}=http://{peer}"));
        }
        command.arg(format!("--initial-cluster=default=http://{peer}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("etcd is in the PATH");
        Self { process, client, _dir: dir }
    }

    /// Starts a server on this store, once etcd responds.
    async fn serve(&self) -> Handle {
        let endpoints = vec![format!("http://{}", self.client)];
        let store = StoreConfig::Etcd(EtcdConfig { endpoints, tls: None, user: None });
        let nowhere = Config::new("/nothing/is/written/there");
        let config = Config { store, listen: Vec::new(), ..nowhere };
        let starting = async {
            loop {
                match Coracle::start(config.clone()).await {
                    Ok(handle) => return handle,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        tokio::time::timeout(LIMIT, starting).await.expect("etcd responds")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The holder of a component's lease.
async fn holder(process: &Handle, component: &str) -> String {
    let leases = Api::<Lease>::namespaced(process.client(), "kube-system");
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    let held =
        wait_for(LIMIT, &leases, component, |lease| holder(lease).is_some_and(|name| !name.is_empty()));
    holder(&held.await).unwrap()
}

/// Asserts that the controllers run.
async fn namespace_gets_account(process: &Handle, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(process.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(process.client(), name);
    wait_for(LIMIT, &accounts, "default", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_servers_runs_the_controllers() {
    let etcd = Etcd::start();
    let first = etcd.serve().await;
    let leader = holder(&first, "kube-controller-manager").await;
    let second = etcd.serve().await;
    namespace_gets_account(&second, "blue").await;
    assert_eq!(
        holder(&second, "kube-controller-manager").await,
        leader,
        "the first server is still the leader"
    );

    first.shutdown().await;
    namespace_gets_account(&second, "green").await;
    for component in ["kube-controller-manager", "kube-scheduler"] {
        assert_ne!(holder(&second, component).await, leader, "{component}");
    }
    tokio::time::timeout(LIMIT, second.run_until_idle()).await.unwrap().unwrap();
    second.shutdown().await;
}

/// The status code of a request to a process.
async fn code(process: &Handle, method: Method, path: &str, body: Vec<u8>) -> u16 {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(body)).unwrap();
    process.client().send(request).await.unwrap().status().as_u16()
}

/// Repeats a read until the response has this status code.
async fn until(process: &Handle, path: &str, expected: u16) {
    let reading = async {
        while code(process, Method::GET, path, Vec::new()).await != expected {
            tokio::task::yield_now().await;
        }
    };
    let answered = tokio::time::timeout(LIMIT, reading).await;
    answered.unwrap_or_else(|_| panic!("{path} is not answered with {expected}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_created_by_one_server_is_served_by_the_other_until_deleted() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.serve().await, etcd.serve().await);
    let created = first.create_cluster("t1", LimitsChange::default()).await.unwrap();
    let maps = "/clusters/t1/api/v1/namespaces/default/configmaps";
    until(&second, maps, 200).await;
    assert_eq!(second.cluster_reference("t1").unwrap().uid, created.uid);
    // The deletion takes more than one transaction, of objects that are larger together than a response of
    // etcd may be.
    let value = "x".repeat(50_000);
    for number in 0..120 {
        let object = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": value}});
        let process = if number % 2 == 0 { &first } else { &second };
        assert_eq!(code(process, Method::POST, maps, serde_json::to_vec(&object).unwrap()).await, 201);
    }
    let stored = async |process: &Handle| {
        let clusters = process.clusters().await.unwrap();
        clusters.into_iter().find(|cluster| cluster.id == "t1").unwrap().usage
    };
    let same = async {
        loop {
            let (one, other) = (stored(&first).await, stored(&second).await);
            if one == other && one.objects >= 120 && one.bytes > 6_000_000 {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, same).await.expect("both servers report the same usage");

    let watch = http::Request::get(format!("{maps}?watch=true")).body(Vec::new()).unwrap();
    let mut watch = first.client().request_stream(watch).await.unwrap();
    second.delete_cluster("t1").await.unwrap();
    let mut output = String::new();
    tokio::time::timeout(LIMIT, watch.read_to_string(&mut output)).await.expect("the watch ends").unwrap();
    until(&first, maps, 404).await;
    assert_eq!(code(&second, Method::GET, maps, Vec::new()).await, 404);

    let again = first.create_cluster("t1", LimitsChange::default()).await.unwrap();
    assert_ne!(again.uid, created.uid);
    assert_eq!((again.usage.objects, stored(&first).await.objects), (0, 0));
    first.shutdown().await;
    second.shutdown().await;
}

/// Pairs of a write through one server and a read through the other, and the number of concurrent tasks.
const PAIRS: usize = 4_000;
const TASKS: usize = 8;

/// Writes a ConfigMap through one server and reads it through the other: by name, or in the list of the
/// namespace.
async fn write_and_read(writer: kube::Client, reader: kube::Client, task: usize) {
    let (writer, reader): (Api<ConfigMap>, Api<ConfigMap>) =
        (Api::default_namespaced(writer), Api::default_namespaced(reader));
    for round in 0..PAIRS / TASKS {
        let name = format!("pairs-{task}-{}", round / 4);
        let data = json!({"metadata": {"name": name}, "data": {"round": round.to_string()}});
        let written = if round % 4 == 0 {
            writer.create(&PostParams::default(), &serde_json::from_value(data).unwrap()).await
        } else {
            writer.patch(&name, &PatchParams::default(), &Patch::Merge(data)).await
        };
        let written = written.unwrap();
        let read = if round % 2 == 0 {
            reader.get(&name).await.unwrap()
        } else {
            let one = ListParams::default().fields(&format!("metadata.name={name}"));
            reader.list(&one).await.unwrap().items.pop().expect("it was created")
        };
        assert_eq!(read.metadata.resource_version, written.metadata.resource_version, "no stale read");
        assert_eq!(read.data, written.data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn write_through_one_server_is_visible_to_the_next_read_of_the_other() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.serve().await, etcd.serve().await);
    let pairs = |task: usize| {
        let (one, other) = (first.client(), second.client());
        let (writer, reader) = if task % 2 == 0 { (one, other) } else { (other, one) };
        Task::spawn("pairs", write_and_read(writer, reader, task))
    };
    for task in (0..TASKS).map(pairs).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_by_one_server_is_based_on_the_latest_write_of_the_other() {
    let etcd = Etcd::start();
    let (first, second) = (etcd.serve().await, etcd.serve().await);
    let maps = "/api/v1/namespaces/default/configmaps";
    for round in 0..200 {
        let path = format!("{maps}/m{round}");
        let object = |value: &str| {
            serde_json::to_vec(&json!({"metadata": {"name": format!("m{round}")}, "data": {"k": value}}))
        };
        // Regardless of the second server's cache: objects that the first one deleted, changed or created
        // anew are so for it, too.
        assert_eq!(code(&first, Method::POST, maps, object("1").unwrap()).await, 201);
        assert_eq!(code(&second, Method::PUT, &path, object("2").unwrap()).await, 200);
        assert_eq!(code(&first, Method::PUT, &path, object("2").unwrap()).await, 200);
        assert_eq!(code(&first, Method::DELETE, &path, Vec::new()).await, 200);
        assert_eq!(code(&second, Method::DELETE, &path, Vec::new()).await, 404);
        assert_eq!(code(&second, Method::POST, maps, object("3").unwrap()).await, 201);
        assert_eq!(code(&first, Method::POST, maps, object("3").unwrap()).await, 409);

        let name = format!("ns{round}");
        let namespace = serde_json::to_vec(&json!({"metadata": {"name": name}})).unwrap();
        assert_eq!(code(&first, Method::POST, "/api/v1/namespaces", namespace).await, 201);
        let within = format!("/api/v1/namespaces/{name}/configmaps");
        assert_eq!(code(&second, Method::POST, &within, object("1").unwrap()).await, 201);
    }
    first.shutdown().await;
    second.shutdown().await;
}

/// Repeats a write until it fails. Returns the failure.
async fn first_refusal(process: &Handle) -> Box<Status> {
    let accounts = Api::<ServiceAccount>::namespaced(process.client(), "default");
    let writing = async {
        loop {
            let metadata = ObjectMeta { generate_name: Some("a-".to_owned()), ..ObjectMeta::default() };
            let account = ServiceAccount { metadata, ..ServiceAccount::default() };
            match accounts.create(&PostParams::default(), &account).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) => return status,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(LIMIT, writing).await.expect("writes fail without etcd")
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_etcd_is_named_to_clients_and_probes() {
    let mut etcd = Etcd::start();
    let process = etcd.serve().await;
    etcd.process.kill().unwrap();
    etcd.process.wait().unwrap();

    let status = first_refusal(&process).await;
    let retry_after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    match status.code {
        503 => {
            assert_eq!(status.message, "the store is unavailable: etcd does not answer");
            assert_eq!(retry_after, 1);
        }
        // The connection broke during the write.
        504 => assert!(status.message.contains("may or may not have been carried out"), "{status:?}"),
        _ => panic!("{status:?}"),
    }
    let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
    let error = process.client().request_text(ready).await.unwrap_err();
    assert!(error.to_string().contains("[-]store failed: etcd is unavailable"), "{error}");
    let report = tokio::time::timeout(LIMIT, process.shutdown()).await.expect("the shutdown completes");
    assert!(report.store.is_err(), "the store did not report its failure");
}
