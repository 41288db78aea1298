//! Informers against a server that says exactly what it is told to.

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

/// One answer of the server.
enum Answer {
    Json(StatusCode, Value),
    /// Lines, for as long as the test keeps the other end.
    Stream(mpsc::Receiver<Value>),
}

/// The answers to come, and the requests there were.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn json(&self, value: Value) {
        self.answer(Answer::Json(StatusCode::OK, value));
    }

    /// A watch that begins with what there is.
    fn state(&self, version: u64, objects: &[Value]) -> mpsc::Sender<Value> {
        let watch = self.stream();
        for object in objects {
            watch.try_send(event("ADDED", object.clone())).unwrap();
        }
        watch.try_send(state_ends(version)).unwrap();
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

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            script.asked.lock().unwrap().push(request.uri().to_string());
            let answer = script.answers.lock().unwrap().pop_front();
            async move {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(respond(answer)),
                    // Out of script: nothing ever happens any more.
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

fn state_ends(version: u64) -> Value {
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

/// An informer that runs against the script, and the queue it tells.
struct Running {
    informer: Informer<MetadataOnly>,
    queue: Queue<ObjectKey>,
    _task: Task<()>,
}

fn run(script: &Script) -> Running {
    let informer = Informer::new(ClusterId::default(), Selection::of::<Namespace>());
    let queue = Queue::new(Rng::seeded(1));
    informer.tell(queue.clone(), Box::new(|change| vec![change.key.clone()]));
    let task = Task::spawn("informer", informer.followed().follow(script.client(), Rng::seeded(2)));
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

    /// The keys it was told of since the last time.
    async fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        while self.queue.depth().waiting > 0 {
            let taken = self.queue.take().await.unwrap();
            told.push(taken.key().to_string());
            taken.finish(crate::queue::Outcome::Done);
        }
        told.sort();
        told
    }
}

#[tokio::test(start_paused = true)]
async fn one_watch_tells_what_there_is_and_what_changes() {
    let script = Script::default();
    let watch = script.stream();
    let running = run(&script);
    watch.send(event("ADDED", object("a", 1))).await.unwrap();
    watch.send(event("BOOKMARK", bookmark(4))).await.unwrap();
    watch.send(event("ADDED", object("b", 2))).await.unwrap();
    tokio::time::sleep(FIRST_RETRY).await;
    assert!(!running.informer.has_synced(), "that may not have been all");
    assert_eq!(running.told().await, Vec::<String>::new());
    watch.send(state_ends(5)).await.unwrap();
    running.reached(5).await;
    assert!(running.informer.has_synced());
    assert_eq!(running.told().await, ["a", "b"]);

    watch.send(event("MODIFIED", object("a", 6))).await.unwrap();
    watch.send(event("DELETED", object("b", 7))).await.unwrap();
    watch.send(event("ADDED", object("c", 8))).await.unwrap();
    running.reached(8).await;
    assert_eq!(running.told().await, ["a", "b", "c"]);
    assert_eq!(running.names(), ["a", "c"]);
    let asked = script.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("sendInitialEvents=true") && asked[0].contains("allowWatchBookmarks=true"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_such_watch_is_asked_for_lists() {
    // One says so, the other takes it for any watch.
    for says_so in [true, false] {
        let script = Script::default();
        if says_so {
            let refused = failure(422, "Invalid");
            script.answer(Answer::Json(StatusCode::UNPROCESSABLE_ENTITY, refused));
        }
        let ordinary = (!says_so).then(|| script.stream());
        if let Some(watch) = &ordinary {
            watch.try_send(event("ADDED", object("old", 1))).unwrap();
        }
        script.json(list(5, "more", &[object("a", 1)]));
        script.json(list(5, "", &[object("b", 2)]));
        let watch = script.stream();
        let running = run(&script);
        running.reached(5).await;
        assert_eq!(running.told().await, ["a", "b"]);
        watch.send(event("ADDED", object("c", 8))).await.unwrap();
        running.reached(8).await;
        watch.send(event("ERROR", gone())).await.unwrap();
        script.json(list(9, "", &[object("c", 8)]));
        running.reached(9).await;
        assert_eq!(running.names(), ["c"]);
        let asked = script.asked();
        assert_eq!(asked[1], "/api/v1/namespaces?&limit=500");
        assert_eq!(asked[2], "/api/v1/namespaces?&limit=500&continue=more");
        assert!(asked[3].contains("resourceVersion=5") && asked[3].contains("allowWatchBookmarks=true"));
        assert_eq!(asked[4], "/api/v1/namespaces?&limit=500", "it is not tried again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_while_all_is_told_is_not_there() {
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
    assert!(script.asked()[3].contains("sendInitialEvents=true"), "it is tried again");
}

#[tokio::test(start_paused = true)]
async fn what_there_is_is_asked_for_again_if_it_was_not_told_to_the_end() {
    let script = Script::default();
    let cut_off = script.stream();
    let _whole = script.state(5, &[object("b", 2)]);
    cut_off.try_send(event("ADDED", object("a", 1))).unwrap();
    drop(cut_off);
    let began = Instant::now();
    let running = run(&script);
    running.reached(5).await;
    assert!(began.elapsed() >= FIRST_RETRY / 2, "{:?}", began.elapsed());
    assert_eq!(running.names(), ["b"], "half of another state counts for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_the_last_bookmark() {
    let script = Script::default();
    let first = script.state(5, &[object("a", 1)]);
    let second = script.stream();
    let running = run(&script);
    first.send(event("BOOKMARK", bookmark(40))).await.unwrap();
    running.reached(40).await;
    drop(first);
    second.send(event("ADDED", object("b", 41))).await.unwrap();
    running.reached(41).await;
    let asked = script.asked();
    assert_eq!(asked.len(), 2, "nothing was listed again: {asked:?}");
    assert!(asked[1].contains("resourceVersion=40") && !asked[1].contains("sendInitialEvents"));
    assert_eq!(running.told().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn history_that_is_gone_is_made_up_for() {
    for on_open in [false, true] {
        let script = Script::default();
        let watch = script.state(5, &[object("a", 1), object("b", 2), object("c", 3)]);
        if on_open {
            script.answer(Answer::Json(StatusCode::GONE, gone()));
        }
        let _next = script.state(9, &[object("b", 8), object("c", 3)]);
        let running = run(&script);
        running.reached(5).await;
        assert_eq!(running.told().await, ["a", "b", "c"]);
        if on_open {
            drop(watch);
        } else {
            watch.send(event("ERROR", gone())).await.unwrap();
        }
        running.reached(9).await;
        assert_eq!(running.told().await, ["a", "b"], "one gone, one changed, one as it was");
        assert_eq!(running.names(), ["b", "c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_again_ever_later() {
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
async fn how_long_the_server_was_not_heard_is_known() {
    let script = Script::default();
    let first = script.state(5, &[]);
    script.answer(Answer::Json(StatusCode::INTERNAL_SERVER_ERROR, json!({"no": "status"})));
    let second = script.stream();
    let running = run(&script);
    running.reached(5).await;
    tokio::time::sleep(FIRST_RETRY * 10).await;
    assert_eq!(running.informer.deaf_for(), Duration::ZERO, "silence is no failure");
    drop(first);
    second.send(event("ADDED", object("a", 6))).await.unwrap();
    running.reached(6).await;
    let deaf = running.informer.deaf_for();
    assert!(deaf >= FIRST_RETRY / 2 && deaf <= FIRST_RETRY, "{deaf:?}");
    tokio::time::sleep(FIRST_RETRY).await;
    assert_eq!(running.informer.deaf_for(), deaf);
}

#[tokio::test(start_paused = true)]
async fn failures_before_a_watch_that_works_are_forgotten() {
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
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_pause() {
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
async fn whoever_wants_a_revision_of_a_quiet_kind_gets_it() {
    let script = Script::default();
    let _silent = script.state(5, &[object("a", 1)]);
    let _next = script.state(30, &[object("a", 1)]);
    let running = run(&script);
    running.reached(5).await;
    running.informer.followed().want(4);
    running.informer.followed().want(30);
    running.reached(30).await;
    assert_eq!(running.told().await, ["a"], "nothing had changed");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_to_be_old_is_waited_for() {
    let script = Script::default();
    let watch = script.state(5, &[object("a", 5)]);
    let running = run(&script);
    running.reached(5).await;
    let (writes, key) = (ReadYourWrites::default(), ObjectKey::cluster_wide(ClusterId::default(), "a"));
    writes.note_outdated(&key, "5");
    let began = Instant::now();
    assert_eq!(writes.seen(&key, &running.informer).await, Err(StaleCache));
    assert!(began.elapsed() >= FIRST_RETRY, "{:?}", began.elapsed());
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()), "once is enough");

    writes.note_outdated(&key, "5");
    watch.send(event("MODIFIED", object("a", 6))).await.unwrap();
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()));
    writes.note_outdated(&key, "6");
    watch.send(event("DELETED", object("a", 7))).await.unwrap();
    assert_eq!(writes.seen(&key, &running.informer).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_up_the_watch_and_loses_nothing() {
    let script = Script::default();
    let _watch = script.state(5, &[object("a", 1), object("b", 2), object("c", 3)]);
    let informer: Informer<MetadataOnly> = Informer::new(ClusterId::default(), Selection::of::<Namespace>());
    let queue = Queue::with_limit(1, Rng::seeded(1));
    informer.tell(queue.clone(), Box::new(|change| vec![change.key.clone()]));
    let _task = Task::spawn("informer", informer.followed().follow(script.client(), Rng::seeded(2)));
    let mut told = Vec::new();
    for turn in 0..3 {
        let taken = queue.take().await.unwrap();
        assert!(turn > 0 || !informer.has_synced(), "there is more to tell");
        told.push(taken.key().to_string());
        taken.finish(crate::queue::Outcome::Done);
    }
    told.sort();
    assert_eq!(told, ["a", "b", "c"]);
}
