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
use crate::people::People;
use crate::rules;
use crate::state::{NODES, PODS, RESOURCES, State, is_going, name, namespace, shown, text};

/// The timeout of the watches, longer than any run.
const WATCH_SECONDS: u64 = 1_000_000;

/// One change of one object.
pub(crate) struct Moment {
    /// Time since the beginning.
    pub(crate) at: Duration,
    revision: u64,
    pub(crate) resource: &'static str,
    /// The previous version; filled in by [`History::check`].
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) object: Arc<Value>,
    pub(crate) is_there: bool,
}

impl Moment {
    /// The object, if this change created it.
    pub(crate) fn made(&self) -> Option<&Value> {
        (self.is_there && self.old.is_none()).then_some(&*self.object)
    }

    /// The object, if it exists after the change.
    pub(crate) fn now(&self) -> Option<&Value> {
        self.is_there.then_some(&*self.object)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, object, .. } = self;
        write!(f, "{resource} {}/{}", namespace(object), name(object))?;
        if !self.is_there {
            return f.write_str(" gone");
        }
        if *resource == PODS {
            return write!(f, " {}", shown([&**object]));
        }
        let (generation, spec) = (&object["metadata"]["generation"], &object["spec"]);
        let strategy = &spec["strategy"]["rollingUpdate"];
        let going = if is_going(object) { " going" } else { "" };
        write!(
            f,
            "{going} generation {generation} replicas {} {strategy} is {}",
            spec["replicas"], object["status"]
        )
    }
}

/// Cheap to clone; clones share the history.
#[derive(Clone)]
pub(crate) struct History {
    began: Instant,
    is_said: bool,
    told: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    moments: Vec<Moment>,
    state: State,
    /// UIDs of objects that users deleted.
    deleted: BTreeSet<String>,
}

impl History {
    /// Starts to watch. Objects that every cluster has from the start are not part of the history.
    pub(crate) async fn begin(people: &People, is_said: bool) -> (Self, Vec<Task<()>>) {
        let history = Self { began: Instant::now(), is_said, told: Arc::default() };
        let any_list = people.get("/api/v1/namespaces").await;
        let revision = text(&any_list, "/metadata/resourceVersion");
        let watch = |&(resource, path): &(&'static str, &str)| {
            let url = format!("{path}?watch=true&resourceVersion={revision}&timeoutSeconds={WATCH_SECONDS}");
            Task::spawn(resource, history.clone().watch(people.clone(), resource, url))
        };
        let watches = RESOURCES.iter().map(watch).collect();
        (history, watches)
    }

    async fn watch(self, people: People, resource: &'static str, url: String) {
        let mut body = people.ask(Method::GET, &url, &Value::Null).await.into_body();
        let mut pending = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            pending.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.take_in(resource, line::read(&line).unwrap());
            }
        }
    }

    fn take_in(&self, resource: &'static str, Line { kind, object }: Line) {
        let is_there = match kind.as_str() {
            "ADDED" | "MODIFIED" => true,
            "DELETED" => false,
            _ => panic!("the watch of {resource} has ended: {kind} {object}"),
        };
        let object = Arc::new(object);
        let revision = text(&object, "/metadata/resourceVersion").parse().unwrap();
        let at = self.began.elapsed();
        let mut told = self.told();
        told.state.set(resource, &object, is_there);
        let moment = Moment { at, revision, resource, old: None, object, is_there };
        if self.is_said {
            eprintln!("{:>8} --> {moment}", at.as_millis());
        }
        told.moments.push(moment);
    }

    /// Records the deletion of an object by a user, so that no controller is blamed for it.
    pub(crate) fn note_deleted(&self, uid: &str) {
        self.told().deleted.insert(uid.to_owned());
    }

    /// The number of changes.
    pub(crate) fn len(&self) -> usize {
        self.told().moments.len()
    }

    /// The changes since then, one line each.
    pub(crate) fn since(&self, len: usize) -> Vec<String> {
        let told = self.told();
        // Nodes report their status all the time.
        let told = told.moments[len..].iter().filter(|moment| moment.resource != NODES);
        told.map(Moment::to_string).collect()
    }

    /// Calls `look` with the current state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.told().state)
    }

    /// Checks the whole history in order. Returns the violated rules.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut told = self.told();
        let Told { moments, deleted, .. } = &mut *told;
        moments.sort_by_key(|moment| moment.revision);
        let (mut state, mut rules, mut wrong) = (State::default(), rules::all(deleted), Vec::new());
        for moment in moments {
            moment.old = state.set(moment.resource, &moment.object, moment.is_there);
            for rule in &mut rules {
                if let Err(broken) = rule.see(moment, &state) {
                    wrong.push(format!("after {:.1} s: {broken}", moment.at.as_secs_f64()));
                }
            }
        }
        wrong
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }
}
