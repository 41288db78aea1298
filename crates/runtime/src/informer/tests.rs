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

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old",
           "reason": "Expired", "code": 410})
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
async fn pages_are_listed_and_changes_followed() {
    let script = Script::default();
    script.json(list(5, "more", &[object("a", 1)]));
    script.json(list(5, "", &[object("b", 2)]));
    let watch = script.stream();
    let running = run(&script);
    assert!(!running.informer.has_synced());
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
    assert_eq!(asked[0], "/api/v1/namespaces?&limit=500");
    assert_eq!(asked[1], "/api/v1/namespaces?&limit=500&continue=more");
    assert!(asked[2].contains("resourceVersion=5") && asked[2].contains("allowWatchBookmarks=true"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_the_last_bookmark() {
    let script = Script::default();
    script.json(list(5, "", &[object("a", 1)]));
    let first = script.stream();
    let second = script.stream();
    let running = run(&script);
    let bookmark = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"resourceVersion": "40"}});
    first.send(event("BOOKMARK", bookmark)).await.unwrap();
    running.reached(40).await;
    drop(first);
    second.send(event("ADDED", object("b", 41))).await.unwrap();
    running.reached(41).await;
    let asked = script.asked();
    assert_eq!(asked.len(), 3, "nothing was listed again: {asked:?}");
    assert!(asked[2].contains("resourceVersion=40"));
    assert_eq!(running.told().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn history_that_is_gone_is_made_up_for_by_a_list() {
    for on_open in [false, true] {
        let script = Script::default();
        script.json(list(5, "", &[object("a", 1), object("b", 2), object("c", 3)]));
        let watch = if on_open {
            script.answer(Answer::Json(StatusCode::GONE, gone()));
            None
        } else {
            Some(script.stream())
        };
        script.json(list(9, "", &[object("b", 8), object("c", 3)]));
        let running = run(&script);
        running.reached(5).await;
        assert_eq!(running.told().await, ["a", "b", "c"]);
        if let Some(watch) = watch {
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
    script.json(list(5, "", &[]));
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
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_pause() {
    let script = Script::default();
    script.json(list(5, "", &[]));
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
    script.json(list(5, "", &[object("a", 1)]));
    let _silent = script.stream();
    script.json(list(30, "", &[object("a", 1)]));
    let running = run(&script);
    running.reached(5).await;
    running.informer.followed().want(4);
    running.informer.followed().want(30);
    running.reached(30).await;
    assert_eq!(running.told().await, ["a"], "nothing had changed");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_up_the_watch_and_loses_nothing() {
    let script = Script::default();
    script.json(list(5, "", &[object("a", 1), object("b", 2), object("c", 3)]));
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
