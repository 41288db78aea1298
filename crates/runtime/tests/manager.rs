//! Managers against a server with a fixed list of namespaces and no changes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use coracle_base::{Rng, Task};
use coracle_runtime::informer::{Listed, MetadataOnly};
use coracle_runtime::{
    Action, Change, ClusterId, Consumer, Controller, Informer, Manager, ObjectKey, Reconcile, ResourcePath,
    Selection,
};
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Requests = Arc<Mutex<Vec<String>>>;

/// A client of a server with these namespaces, and the requests it received.
fn server(names: &'static [&'static str]) -> (Client, Requests) {
    let requests = Requests::default();
    let log = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let body = match (uri.contains("sendInitialEvents=true"), uri.contains("watch=true")) {
            (true, _) => state(names),
            (_, true) => silence(),
            _ => list(names),
        };
        log.lock().unwrap().push(uri);
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    (Client::new(service, "default"), requests)
}

fn item(name: &&str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "1"}})
}

/// Initial events, and no changes afterwards.
fn state(names: &[&str]) -> UnsyncBoxBody<Bytes, Infallible> {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let end = json!({"metadata": {"resourceVersion": "9", "annotations": annotations}});
    let events = names.iter().map(|name| json!({"type": "ADDED", "object": item(name)}));
    let events = events.chain([json!({"type": "BOOKMARK", "object": end})]);
    let lines: String = events.map(|event| format!("{event}\n")).collect();
    let notify = stream::once(std::future::ready(Ok(Frame::data(Bytes::from(lines)))));
    StreamBody::new(notify.chain(stream::pending())).boxed_unsync()
}

fn list(names: &[&str]) -> UnsyncBoxBody<Bytes, Infallible> {
    let items: Vec<Value> = names.iter().map(item).collect();
    let list = json!({"metadata": {"resourceVersion": "9"}, "items": items});
    Full::from(list.to_string()).boxed_unsync()
}

fn silence() -> UnsyncBoxBody<Bytes, Infallible> {
    StreamBody::new(stream::pending()).boxed_unsync()
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

/// A controller whose `act` receives the name and the number of the attempt.
struct Actor<F> {
    attempts: Mutex<BTreeMap<String, u32>>,
    act: F,
}

impl<F, Acting> Reconcile for Actor<F>
where
    F: Fn(String, u32) -> Acting + Send + Sync + 'static,
    Acting: Future<Output = Result<Action, Refused>> + Send + 'static,
{
    type Error = Refused;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Refused> {
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap();
            let attempt = attempts.entry(key.name().to_owned()).or_default();
            *attempt += 1;
            *attempt
        };
        (self.act)(key.name().to_owned(), attempt).await
    }
}

fn controller<F, Acting>(manager: &mut Manager, act: F) -> Controller
where
    F: Fn(String, u32) -> Acting + Send + Sync + 'static,
    Acting: Future<Output = Result<Action, Refused>> + Send + 'static,
{
    let namespaces = namespaces(manager);
    let itself = |change: &Change<MetadataOnly>| [change.key.clone()];
    Controller::new("actor", Actor { attempts: Mutex::default(), act }).watches(&namespaces, itself)
}

fn namespaces(manager: &mut Manager) -> Informer<MetadataOnly> {
    manager.informer(Selection::of::<Namespace>())
}

fn manager(client: Client) -> Manager {
    Manager::new(client, ClusterId::default())
}

#[tokio::test(start_paused = true)]
async fn panic_or_failure_is_retried_and_does_not_affect_other_keys() {
    let (client, _) = server(&["fails", "panics", "works"]);
    let mut manager = manager(client);
    let log: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let seen = Arc::clone(&log);
    let actor = controller(&mut manager, move |name, attempt| {
        seen.lock().unwrap().push((name.clone(), attempt));
        async move {
            match name.as_str() {
                "panics" if attempt < 3 => panic!("as it should"),
                "fails" if attempt < 4 => Err(Refused),
                _ => Ok(Action::AwaitChange),
            }
        }
    });
    manager.add(actor);
    let (idle, stop) = (manager.idle(), CancellationToken::new());
    let running = Task::spawn("manager", manager.run(stop.clone()));
    while idle.run_until_idle().await.unwrap().delayed > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut attempts = log.lock().unwrap().clone();
    attempts.sort();
    let of = |name: &str| attempts.iter().filter(|(seen, _)| seen == name).count();
    assert_eq!((of("fails"), of("panics"), of("works")), (4, 3, 1));
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requeue_after_reconciles_again() {
    let (client, _) = server(&["a"]);
    let mut manager = manager(client);
    let (hour, began) = (Duration::from_secs(3600), Instant::now());
    let done = Arc::new(Notify::new());
    let notify = Arc::clone(&done);
    let actor = controller(&mut manager, move |_, attempt| {
        if attempt == 3 {
            notify.notify_one();
        }
        async move { Ok(Action::RequeueAfter(hour)) }
    });
    manager.add(actor);
    let _running = Task::spawn("manager", manager.run(CancellationToken::new()));
    done.notified().await;
    assert_eq!(began.elapsed().as_secs(), 7200);
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_same_retry_delays() {
    async fn delays(seed: u64) -> Vec<Duration> {
        let (client, _) = server(&["a"]);
        let mut manager = manager(client).with_rng(Rng::seeded(seed));
        let (log, began, done) = (Arc::new(Mutex::new(Vec::new())), Instant::now(), Arc::new(Notify::new()));
        let (seen, notify) = (Arc::clone(&log), Arc::clone(&done));
        let actor = controller(&mut manager, move |_, attempt| {
            seen.lock().unwrap().push(began.elapsed());
            if attempt == 9 {
                notify.notify_one();
            }
            async move { Err(Refused) }
        });
        manager.add(actor);
        let _running = Task::spawn("manager", manager.run(CancellationToken::new()));
        done.notified().await;
        log.lock().unwrap().clone()
    }
    let first = delays(1).await;
    assert_eq!(first, delays(1).await);
    assert_ne!(first, delays(2).await);
}

#[tokio::test(start_paused = true)]
async fn concurrent_reconciles_are_limited_to_the_workers() {
    let (client, _) = server(&["a", "b", "c", "d", "e"]);
    let mut manager = manager(client);
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (notify, opened) = (Arc::clone(&started), Arc::clone(&gate));
    let actor = controller(&mut manager, move |_, _| {
        notify.add_permits(1);
        let opened = Arc::clone(&opened);
        async move {
            opened.acquire().await.unwrap().forget();
            Ok(Action::AwaitChange)
        }
    });
    manager.add(actor.workers(2));
    let idle = manager.idle();
    let _running = Task::spawn("manager", manager.run(CancellationToken::new()));
    started.acquire_many(2).await.unwrap().forget();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(started.available_permits(), 0, "a third reconcile started");
    gate.add_permits(5);
    assert_eq!(idle.run_until_idle().await.unwrap().reconciles, 5);
}

#[tokio::test(start_paused = true)]
async fn stop_finishes_reconciles_in_flight_and_starts_none() {
    let (client, _) = server(&["a", "b"]);
    let mut manager = manager(client);
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let finished = Arc::new(Semaphore::new(0));
    let (notify, opened, ended) = (Arc::clone(&started), Arc::clone(&gate), Arc::clone(&finished));
    let actor = controller(&mut manager, move |_, _| {
        notify.add_permits(1);
        let (opened, ended) = (Arc::clone(&opened), Arc::clone(&ended));
        async move {
            opened.acquire().await.unwrap().forget();
            ended.add_permits(1);
            Ok(Action::AwaitChange)
        }
    });
    manager.add(actor);
    let stop = CancellationToken::new();
    let running = Task::spawn("manager", manager.run(stop.clone()));
    started.acquire().await.unwrap().forget();
    stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.add_permits(2);
    running.await.unwrap();
    assert_eq!((finished.available_permits(), started.available_permits()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn stop_aborts_reconciles_after_the_grace_period() {
    let (client, _) = server(&["a"]);
    let mut manager = manager(client);
    let started = Arc::new(Notify::new());
    let notify = Arc::clone(&started);
    let actor = controller(&mut manager, move |_, _| {
        notify.notify_one();
        std::future::pending()
    });
    manager.add(actor);
    let stop = CancellationToken::new();
    let running = Task::spawn("manager", manager.run(stop.clone()));
    started.notified().await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn manager_without_server_responses_stops_at_once() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible>>()
    });
    let mut manager = manager(Client::new(service, "default"));
    let actor = controller(&mut manager, |_, _| async { Ok(Action::AwaitChange) });
    manager.add(actor);
    let stop = CancellationToken::new();
    let (began, running) = (Instant::now(), Task::spawn("manager", manager.run(stop.clone())));
    tokio::task::yield_now().await;
    stop.cancel();
    running.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn equal_selections_share_one_watch() {
    let (client, requests) = server(&["a"]);
    let mut manager = manager(client);
    for _ in 0..3 {
        let actor = controller(&mut manager, |_, _| async { Ok(Action::AwaitChange) });
        manager.add(actor);
    }
    let namespaces = namespaces(&mut manager);
    let idle = manager.idle();
    let _running = Task::spawn("manager", manager.run(CancellationToken::new()));
    assert_eq!(idle.run_until_idle().await.unwrap().reconciles, 3);
    assert_eq!(namespaces.store().len(), 1);
    let watches = requests.lock().unwrap().iter().filter(|uri| uri.contains("watch=true")).count();
    assert_eq!(watches, 1);
}

/// Counts the lists it receives.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<(usize, usize)>>);

impl Consumer for Counter {
    type Object = MetadataOnly;
    type Listing = usize;

    async fn page(&self, listing: &mut usize, page: Listed<MetadataOnly>) {
        *listing += page.objects.len();
    }

    async fn complete(&self, listing: usize) {
        let mut seen = self.0.lock().unwrap();
        *seen = (seen.0 + 1, listing);
    }

    async fn put(&self, _key: ObjectKey, _object: MetadataOnly) {}

    async fn remove(&self, _key: ObjectKey, _object: MetadataOnly) {}
}

#[tokio::test(start_paused = true)]
async fn dynamic_reflector_starts_and_stops_with_a_running_manager() {
    let (client, requests) = server(&["a", "b"]);
    let manager = manager(client);
    let (dynamic, idle, stop) = (manager.dynamic(), manager.idle(), CancellationToken::new());
    let running = Task::spawn("manager", manager.run(stop.clone()));
    let counter = Counter::default();
    let boats = ResourcePath::new("example.org", "v1", "boats");
    let following = {
        let selection = Selection::at(&boats).metadata_only();
        dynamic.follow(ClusterId::default(), selection, counter.clone())
    };
    assert!(!following.has_synced());
    following.attempted().await;
    assert!(following.has_synced());
    assert_eq!(*counter.0.lock().unwrap(), (1, 2));
    idle.run_until_idle().await.unwrap();

    drop(following);
    idle.run_until_idle().await.unwrap();
    let of_boats = |requests: &Requests| {
        requests.lock().unwrap().iter().filter(|uri| uri.starts_with("/apis/example.org/v1/boats")).count()
    };
    let before = of_boats(&requests);
    assert!(before > 0);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(of_boats(&requests), before, "the kind is still requested");
    stop.cancel();
    running.await.unwrap();
    // A reconcile that is still in flight when the manager stops must not wait for a list that never comes.
    let selection = Selection::at(&boats).metadata_only();
    let late = dynamic.follow(ClusterId::default(), selection, counter.clone());
    late.attempted().await;
    assert!(!late.has_synced());
}

#[tokio::test]
async fn shared_component_is_created_once() {
    let (client, _) = server(&[]);
    let mut manager = manager(client);
    let first = manager.shared(|_| Arc::new(7_u32));
    let second = manager.shared(|_| Arc::new(8_u32));
    let other = manager.shared(|_| Arc::new("text"));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!((*second, *other), (7, "text"));
}
