//! Informers against a scripted server.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use coracle_base::Task;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::Namespace;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::reflector::FIRST_RETRY;
use super::*;
use crate::read_your_writes::{ReadYourWrites, StaleCache};

/// A scripted response.
enum Answer {
    Json(StatusCode, Value),
    /// Lines of a watch, open as long as the test holds the sender.
    Stream(mpsc::Receiver<Value>),
}

/// Responses still to come, and requests received.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn json(&self, value: Value) {
        self.answer(Answer::Json(StatusCode::OK, value));
    }

    /// A watch with initial events.
    fn state(&self, version: u64, objects: &[Value]) -> mpsc::Sender<Value> {
        let watch = self.stream();
        for object in objects {
            watch.try_send(event("ADDED", object.clone())).unwrap();
        }
        watch.try_send(initial_events_end(version)).unwrap();
        watch
    }

    fn stream(&self) -> mpsc::Sender<Value> {
        let (sender, receiver) = mpsc::channel(16);
        self.answer(Answer::Stream(receiver));
        sender
    }

    fn answer(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            script.requests.lock().unwrap().push(request.uri().to_string());
            let answer = script.answers.lock().unwrap().pop_front();
            async move {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(respond(answer)),
                    // The script is over: no response ever comes.
                    None => std::future::pending().await,
                }
            }
        });
        Client::new(service, "default")
    }
}

fn respond(answer: Answer) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (status, body) = match answer {
        Answer::Json(status, value) => (status, Full::from(value.to_string()).boxed_unsync()),
        Answer::Stream(lines) => {
            let frames = stream::unfold(lines, async |mut lines| {
                let line = format!("{}\n", lines.recv().await?);
                Some((Ok(http_body::Frame::data(Bytes::from(line))), lines))
            });
            (StatusCode::OK, StreamBody::new(frames).boxed_unsync())
        }
    };
    Response::builder().status(status).body(body).unwrap()
}

fn object(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string(), "labels": {"not": "kept"}}})
}

fn list(version: u64, token: &str, items: &[Value]) -> Value {
    json!({"metadata": {"resourceVersion": version.to_string(), "continue": token}, "items": items})
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(version: u64) -> Value {
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}})
}

fn initial_events_end(version: u64) -> Value {
    let mut bookmark = bookmark(version);
    bookmark["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    event("BOOKMARK", bookmark)
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "so be it",
           "reason": reason, "code": code})
}

fn gone() -> Value {
    failure(410, "Expired")
}

/// A running informer against the script, and its queue.
struct Running {
    informer: Informer<MetadataOnly>,
    queue: Queue<ObjectKey>,
    _task: Task<()>,
}

fn run(script: &Script) -> Running {
    let informer = Informer::new(ClusterId::default(), Selection::of::<Namespace>());
    let queue = Queue::new(Rng::seeded(1));
    informer.add_listener(queue.clone(), Box::new(|change| vec![change.key.clone()]));
    let task = Task::spawn("informer", informer.as_any().follow(script.client(), Rng::seeded(2)));
    Running { informer, queue, _task: task }
}

impl Running {
    async fn reached(&self, revision: u64) {
        let mut progress = self.informer.progress();
        progress.wait_for(|progress| progress.revision >= revision).await.unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.informer.store().list().iter().map(|object| object.metadata.name.to_string()).collect();
        names.sort();
        names
    }

    /// The keys enqueued since the last call.
    async fn queued_keys(&self) -> Vec<String> {
        let mut queued_keys = Vec::new();
        while self.queue.depth().waiting > 0 {
            let taken = self.queue.take().await.unwrap();
            queued_keys.push(taken.key().to_string());
            taken.finish(crate::queue::Outcome::Done);
        }
        queued_keys.sort();
        queued_keys
    }
}

#[tokio::test(start_paused = true)]
async fn watch_delivers_initial_events_and_changes() {
    let script = Script::default();
    let watch = script.stream();
    let running = run(&script);
    watch.send(event("ADDED", object("a", 1))).await.unwrap();
    watch.send(event("BOOKMARK", bookmark(4))).await.unwrap();
    watch.send(event("ADDED", object("b", 2))).await.unwrap();
    tokio::time::sleep(FIRST_RETRY).await;
    assert!(!running.informer.has_synced(), "the initial events are not complete");
    assert_eq!(running.queued_keys().await, Vec::<String>::new());
    watch.send(initial_events_end(5)).await.unwrap();
    running.reached(5).await;
    assert!(running.informer.has_synced());
    assert_eq!(running.queued_keys().await, ["a", "b"]);

    watch.send(event("MODIFIED", object("a", 6))).await.unwrap();
    watch.send(event("DELETED", object("b", 7))).await.unwrap();
    watch.send(event("ADDED", object("c", 8))).await.unwrap();
    running.reached(8).await;
    assert_eq!(running.queued_keys().await, ["a", "b", "c"]);
    assert_eq!(running.names(), ["a", "c"]);
    let requests = script.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(
        requests[0].contains("sendInitialEvents=true") && requests[0].contains("allowWatchBookmarks=true")
    );
}

#[tokio::test(start_paused = true)]
async fn server_without_initial_events_is_listed() {
    // One server rejects `sendInitialEvents`, the other ignores it.
    for rejects in [true, false] {
        let script = Script::default();
        if rejects {
            let refused = failure(422, "Invalid");
            script.answer(Answer::Json(StatusCode::UNPROCESSABLE_ENTITY, refused));
        }
        let ordinary = (!rejects).then(|| script.stream());
        if let Some(watch) = &ordinary {
            watch.try_send(event("ADDED", object("old", 1))).unwrap();
        }
        script.json(list(5, "more", &[object("a", 1)]));
        script.json(list(5, "", &[object("b", 2)]));
        let watch = script.stream();
        let running = run(&script);
        running.reached(5).await;
        assert_eq!(running.queued_keys().await, ["a", "b"]);
        watch.send(event("ADDED", object("c", 8))).await.unwrap();
        running.reached(8).await;
        watch.send(event("ERROR", gone())).await.unwrap();
        script.json(list(9, "", &[object("c", 8)]));
        running.reached(9).await;
        assert_eq!(running.names(), ["c"]);
        let requests = script.requests();
        assert_eq!(requests[1], "/api/v1/namespaces?&limit=500");
        assert_eq!(requests[2], "/api/v1/namespaces?&limit=500&continue=more");
        assert!(
            requests[3].contains("resourceVersion=5") && requests[3].contains("allowWatchBookmarks=true")
        );
        assert_eq!(requests[4], "/api/v1/namespaces?&limit=500", "initial events are not requested again");
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_within_initial_events_falls_back_to_a_list() {
    let script = Script::default();
    let first = script.stream();
    first.try_send(event("ADDED", object("a", 1))).unwrap();
    first.try_send(event("DELETED", object("a", 2))).unwrap();
    script.json(list(5, "", &[object("b", 3)]));
    let second = script.stream();
    let running = run(&script);
    running.reached(5).await;
    assert_eq!(running.names(), ["b"]);
    second.send(event("ERROR", gone())).await.unwrap();
    let _third = script.state(9, &[]);
    running.reached(9).await;
    assert!(script.requests()[3].contains("sendInitialEvents=true"), "initial events are requested again");
}

#[tokio::test(start_paused = true)]
async fn incomplete_initial_events_are_requested_again() {
    let script = Script::default();
    let cut_off = script.stream();
    let _whole = script.state(5, &[object("b", 2)]);
    cut_off.try_send(event("ADDED", object("a", 1))).unwrap();
    drop(cut_off);
    let began = Instant::now();
    let running = run(&script);
    running.reached(5).await;
    assert!(began.elapsed() >= FIRST_RETRY / 2, "{:?}", began.elapsed());
    assert_eq!(running.names(), ["b"], "incomplete initial events are discarded");
}

#[tokio::test(start_paused = true)]
async fn ended_watch_resumes_from_the_last_bookmark() {
    let script = Script::default();
    let first = script.state(5, &[object("a", 1)]);
    let second = script.stream();
    let running = run(&script);
    first.send(event("BOOKMARK", bookmark(40))).await.unwrap();
    running.reached(40).await;
    drop(first);
    second.send(event("ADDED", object("b", 41))).await.unwrap();
    running.reached(41).await;
    let requests = script.requests();
    assert_eq!(requests.len(), 2, "nothing was listed again: {requests:?}");
    assert!(requests[1].contains("resourceVersion=40") && !requests[1].contains("sendInitialEvents"));
    assert_eq!(running.queued_keys().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn relist_after_410_delivers_missed_changes() {
    for on_open in [false, true] {
        let script = Script::default();
        let watch = script.state(5, &[object("a", 1), object("b", 2), object("c", 3)]);
        if on_open {
            script.answer(Answer::Json(StatusCode::GONE, gone()));
        }
        let _next = script.state(9, &[object("b", 8), object("c", 3)]);
        let running = run(&script);
        running.reached(5).await;
        assert_eq!(running.queued_keys().await, ["a", "b", "c"]);
        if on_open {
            drop(watch);
        } else {
            watch.send(event("ERROR", gone())).await.unwrap();
        }
        running.reached(9).await;
        assert_eq!(running.queued_keys().await, ["a", "b"], "one deleted, one modified, one unchanged");
        assert_eq!(running.names(), ["b", "c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_server_is_retried_with_backoff() {
    let script = Script::default();
    for _ in 0..4 {
        script.answer(Answer::Json(StatusCode::INTERNAL_SERVER_ERROR, json!({"no": "status"})));
    }
    let _watch = script.state(5, &[]);
    let began = Instant::now();
    let running = run(&script);
    running.reached(5).await;
    let waited = began.elapsed();
    assert!(
        waited >= FIRST_RETRY * (1 + 2 + 4 + 8) / 2 && waited <= FIRST_RETRY * (1 + 2 + 4 + 8),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn disconnected_for_counts_time_without_a_watch() {
    let script = Script::default();
    let first = script.state(5, &[]);
    script.answer(Answer::Json(StatusCode::INTERNAL_SERVER_ERROR, json!({"no": "status"})));
    let second = script.stream();
    let running = run(&script);
    running.reached(5).await;
    tokio::time::sleep(FIRST_RETRY * 10).await;
    assert_eq!(running.informer.disconnected_for(), Duration::ZERO, "a silent watch is not disconnected");
    drop(first);
    second.send(event("ADDED", object("a", 6))).await.unwrap();
    running.reached(6).await;
    let disconnected = running.informer.disconnected_for();
    assert!(disconnected >= FIRST_RETRY / 2 && disconnected <= FIRST_RETRY, "{disconnected:?}");
    tokio::time::sleep(FIRST_RETRY).await;
    assert_eq!(running.informer.disconnected_for(), disconnected);
}

#[tokio::test(start_paused = true)]
async fn established_watch_resets_the_backoff() {
    let script = Script::default();
    let failure = || Answer::Json(StatusCode::INTERNAL_SERVER_ERROR, json!({"no": "status"}));
    for _ in 0..6 {
        script.answer(failure());
    }
    let watch = script.state(5, &[]);
    script.answer(failure());
    let second = script.stream();
    let running = run(&script);
    running.reached(5).await;
    tokio::time::sleep(FIRST_RETRY * 2).await;
    drop(watch);
    second.send(event("ADDED", object("a", 6))).await.unwrap();
    let began = Instant::now();
    running.reached(6).await;
    assert!(began.elapsed() <= FIRST_RETRY, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_retried_with_backoff() {
    let script = Script::default();
    drop(script.state(5, &[]));
    for _ in 0..3 {
        drop(script.stream());
    }
    script.stream().send(event("ADDED", object("a", 6))).await.unwrap();
    let began = Instant::now();
    run(&script).reached(6).await;
    assert!(began.elapsed() >= FIRST_RETRY, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn required_revision_of_unchanged_kind_is_reached_by_relist() {
    let script = Script::default();
    let _silent = script.state(5, &[object("a", 1)]);
    let _next = script.state(30, &[object("a", 1)]);
    let running = run(&script);
    running.reached(5).await;
    running.informer.as_any().require(4);
    running.informer.as_any().require(30);
    running.reached(30).await;
    assert_eq!(running.queued_keys().await, ["a"], "nothing had changed");
}

#[tokio::test(start_paused = true)]
async fn outdated_object_is_waited_for_once() {
    let script = Script::default();
    let watch = script.state(5, &[object("a", 5)]);
    let running = run(&script);
    running.reached(5).await;
    let (writes, key) = (ReadYourWrites::default(), ObjectKey::cluster_wide(ClusterId::default(), "a"));
    writes.note_outdated(&key, "5");
    let began = Instant::now();
    assert_eq!(writes.seen(&key, &running.informer).await, Err(StaleCache));
    assert!(began.elapsed() >= FIRST_RETRY, "{:?}", began.elapsed());
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()), "only the first call waits");

    writes.note_outdated(&key, "5");
    watch.send(event("MODIFIED", object("a", 6))).await.unwrap();
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()));
    writes.note_outdated(&key, "6");
    watch.send(event("DELETED", object("a", 7))).await.unwrap();
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn full_queue_blocks_the_watch_without_loss() {
    let script = Script::default();
    let _watch = script.state(5, &[object("a", 1), object("b", 2), object("c", 3)]);
    let informer: Informer<MetadataOnly> = Informer::new(ClusterId::default(), Selection::of::<Namespace>());
    let queue = Queue::with_limit(1, Rng::seeded(1));
    informer.add_listener(queue.clone(), Box::new(|change| vec![change.key.clone()]));
    let _task = Task::spawn("informer", informer.as_any().follow(script.client(), Rng::seeded(2)));
    let mut queued_keys = Vec::new();
    for turn in 0..3 {
        let taken = queue.take().await.unwrap();
        assert!(turn > 0 || !informer.has_synced(), "more objects follow");
        queued_keys.push(taken.key().to_string());
        taken.finish(crate::queue::Outcome::Done);
    }
    queued_keys.sort();
    assert_eq!(queued_keys, ["a", "b", "c"]);
}
