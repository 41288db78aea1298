//! The history of all objects, recorded by a client without faults that watches from the beginning.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coracle_base::Task;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::line::{self, Line};
use crate::rules;
use crate::state::{NODES, PODS, RESOURCES, State, format_pods, is_terminating, name, namespace, text};
use crate::users::Users;

/// The timeout of the watches, longer than any run.
const WATCH_SECONDS: u64 = 1_000_000;

/// One change of one object.
pub(crate) struct Change {
    /// Time since the beginning.
    pub(crate) at: Duration,
    revision: u64,
    pub(crate) resource: &'static str,
    /// The previous version; filled in by [`History::check`].
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) object: Arc<Value>,
    pub(crate) is_there: bool,
}

impl Change {
    /// The object, if this change created it.
    pub(crate) fn created(&self) -> Option<&Value> {
        (self.is_there && self.old.is_none()).then_some(&*self.object)
    }

    /// The object, if it exists after the change.
    pub(crate) fn now(&self) -> Option<&Value> {
        self.is_there.then_some(&*self.object)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, object, .. } = self;
        write!(f, "{resource} {}/{}", namespace(object), name(object))?;
        if !self.is_there {
            return f.write_str(" gone");
        }
        if *resource == PODS {
            return write!(f, " {}", format_pods([&**object]));
        }
        let (generation, spec) = (&object["metadata"]["generation"], &object["spec"]);
        let strategy = &spec["strategy"]["rollingUpdate"];
        let terminating = if is_terminating(object) { " terminating" } else { "" };
        write!(
            f,
            "{terminating} generation {generation} replicas {} {strategy} is {}",
            spec["replicas"], object["status"]
        )
    }
}

/// Cheap to clone; clones share the history.
#[derive(Clone)]
pub(crate) struct History {
    began: Instant,
    is_printed: bool,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    changes: Vec<Change>,
    state: State,
    /// UIDs of objects that users deleted.
    deleted: BTreeSet<String>,
}

impl History {
    /// Starts to watch. Objects that every cluster has from the start are not part of the history.
    pub(crate) async fn begin(users: &Users, is_printed: bool) -> (Self, Vec<Task<()>>) {
        let history = Self { began: Instant::now(), is_printed, log: Arc::default() };
        let any_list = users.get("/api/v1/namespaces").await;
        let revision = text(&any_list, "/metadata/resourceVersion");
        let watch = |&(resource, path): &(&'static str, &str)| {
            let url = format!("{path}?watch=true&resourceVersion={revision}&timeoutSeconds={WATCH_SECONDS}");
            Task::spawn(resource, history.clone().watch(users.clone(), resource, url))
        };
        let watches = RESOURCES.iter().map(watch).collect();
        (history, watches)
    }

    async fn watch(self, users: Users, resource: &'static str, url: String) {
        let mut body = users.ask(Method::GET, &url, &Value::Null).await.into_body();
        let mut pending = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            pending.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.record_line(resource, line::read(&line).unwrap());
            }
        }
    }

    fn record_line(&self, resource: &'static str, Line { kind, object }: Line) {
        let is_there = match kind.as_str() {
            "ADDED" | "MODIFIED" => true,
            "DELETED" => false,
            _ => panic!("the watch of {resource} has ended: {kind} {object}"),
        };
        let object = Arc::new(object);
        let revision = text(&object, "/metadata/resourceVersion").parse().unwrap();
        let at = self.began.elapsed();
        let mut log = self.log();
        log.state.set(resource, &object, is_there);
        let change = Change { at, revision, resource, old: None, object, is_there };
        if self.is_printed {
            eprintln!("{:>8} --> {change}", at.as_millis());
        }
        log.changes.push(change);
    }

    /// Records the deletion of an object by a user, which is not a violation by a controller.
    pub(crate) fn record_deleted(&self, uid: &str) {
        self.log().deleted.insert(uid.to_owned());
    }

    /// The number of changes.
    pub(crate) fn len(&self) -> usize {
        self.log().changes.len()
    }

    /// The changes since then, one line each.
    pub(crate) fn since(&self, len: usize) -> Vec<String> {
        let log = self.log();
        // Nodes report their status all the time.
        let log = log.changes[len..].iter().filter(|change| change.resource != NODES);
        log.map(Change::to_string).collect()
    }

    /// Calls the closure with the current state.
    pub(crate) fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.log().state)
    }

    /// Checks the whole history in order. Returns the violated rules.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut log = self.log();
        let Log { changes, deleted, .. } = &mut *log;
        changes.sort_by_key(|change| change.revision);
        let (mut state, mut rules, mut violations) = (State::default(), rules::all(deleted), Vec::new());
        for change in changes {
            change.old = state.set(change.resource, &change.object, change.is_there);
            for rule in &mut rules {
                if let Err(violation) = rule.check(change, &state) {
                    violations.push(format!("after {:.1} s: {violation}", change.at.as_secs_f64()));
                }
            }
        }
        violations
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }
}
