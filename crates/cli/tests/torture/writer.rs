//! A client that changes objects as fast as the server responds, and records every request with its outcome.

use std::time::Duration;

use anyhow::Result;
use coracle_base::Rng;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Protocol, Target};
use crate::model::{Change, Content, Kind, ObjectId, Objects, Operation, Outcome, Revision};
use crate::objects;

/// Enough that a writer still has usable objects after etcd was killed, when each request may leave one in doubt.
const OBJECTS: usize = 12;

/// Pause after a 5xx or 429 response, so that a server without its etcd is not flooded.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A writer. It continues with the same objects after each restart of the server.
pub(crate) struct Writer {
    number: usize,
    rng: Rng,
    objects: Vec<Owned>,
    shared: ObjectId,
    stamps: u64,
    operations: Vec<Operation>,
}

struct Owned {
    id: ObjectId,
    belief: Belief,
}

/// The writer's view of an object's state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    Absent,
    Present(Revision),
    /// A request had an unknown outcome; no further one is sent until a list has resolved it.
    InDoubt,
}

impl Writer {
    pub(crate) fn new(number: usize, rng: Rng) -> Self {
        let kind = |at: usize| Kind::ALL[at % Kind::ALL.len()];
        let id = |at: usize| objects::owned(kind(at), &format!("{number}-{at}"));
        let objects = (0..OBJECTS).map(|at| Owned { id: id(at), belief: Belief::Absent }).collect();
        let shared = objects::shared(kind(number), "counter");
        Self { number, rng, objects, shared, stamps: 0, operations: Vec::new() }
    }

    /// Adopts the state shown by a list.
    pub(crate) fn settle(&mut self, listed: &Objects) {
        for object in &mut self.objects {
            let version = listed.get(&object.id);
            object.belief = version.map_or(Belief::Absent, |version| Belief::Present(version.revision));
        }
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_operations(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.operations)
    }

    /// Writes until stopped, or until the server accepts no more connections. A request in flight is completed.
    pub(crate) async fn run(mut self, target: Target, stop: CancellationToken) -> Self {
        let protocol = Protocol::of(self.number);
        while !stop.is_cancelled() {
            let Ok(mut connection) = Connection::open(&target, protocol).await else { break };
            // A broken connection is recorded with its request.
            while !stop.is_cancelled() && self.write(&mut connection).await.is_ok() {}
        }
        self
    }

    async fn write(&mut self, connection: &mut Connection) -> Result<()> {
        let usable: Vec<usize> =
            (0..self.objects.len()).filter(|at| self.objects[*at].belief != Belief::InDoubt).collect();
        if usable.is_empty() || self.rng.one_in(8) {
            return self.write_shared(connection).await;
        }
        let at = usable[usize::try_from(self.rng.below(usable.len() as u64))?];
        let change = self.draw(self.objects[at].belief);
        let id = self.objects[at].id.clone();
        let outcome = self.request(connection, &id, change).await;
        let belief = &mut self.objects[at].belief;
        match outcome {
            Ok(Some(Outcome::Acknowledged(Some(version)))) => *belief = Belief::Present(version.revision),
            Ok(Some(Outcome::Acknowledged(None))) => *belief = Belief::Absent,
            Ok(Some(Outcome::Rejected { .. }) | None) => {}
            Ok(Some(Outcome::Unknown)) => *belief = Belief::InDoubt,
            Err(error) => {
                *belief = Belief::InDoubt;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Draws a change, usually one that succeeds, sometimes one that must be rejected.
    fn draw(&mut self, belief: Belief) -> Change {
        let stamp = self.stamp();
        let content = Content { stamp: stamp.clone(), base: stamp.clone() };
        let is_wrong = self.rng.one_in(12);
        match (belief, self.rng.below(10)) {
            (Belief::Present(_), _) if is_wrong => Change::Create(content),
            (Belief::Present(revision), 0 | 1) => {
                Change::Delete { expected: self.rng.one_in(2).then_some(revision) }
            }
            (Belief::Present(revision), 2) => {
                Change::Replace { content, expected: Some(revision.saturating_sub(1)) }
            }
            (Belief::Present(revision), 3..=5) => Change::Replace { content, expected: Some(revision) },
            (Belief::Present(_), 6) => Change::Replace { content, expected: None },
            (Belief::Present(_), _) => Change::Patch { stamp },
            (_, 0..=4) if is_wrong => Change::Delete { expected: None },
            (_, _) if is_wrong => Change::Patch { stamp },
            _ => Change::Create(content),
        }
    }

    /// Replaces the shared object at the revision that was just read, in competition with the other writers.
    async fn write_shared(&mut self, connection: &mut Connection) -> Result<()> {
        let id = self.shared.clone();
        let (code, body) = connection.json(Method::GET, &objects::path(&id), None).await?;
        let stamp = self.stamp();
        let content = Content { stamp: stamp.clone(), base: stamp };
        let change = match code {
            StatusCode::OK => Change::Replace { content, expected: Some(objects::revision(&body)?) },
            StatusCode::NOT_FOUND => Change::Create(content),
            _ => {
                sleep(RETRY_PAUSE).await;
                return Ok(());
            }
        };
        self.request(connection, &id, change).await.map(drop)
    }

    fn stamp(&mut self) -> String {
        self.stamps += 1;
        format!("w{}-{}", self.number, self.stamps)
    }

    /// Sends a request and records it. Returns None if the server did not execute it and said so (429).
    async fn request(
        &mut self,
        connection: &mut Connection,
        object: &ObjectId,
        change: Change,
    ) -> Result<Option<Outcome>> {
        let sent = send(connection, object, &change).await;
        let outcome = match &sent {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) => {
                sleep(RETRY_PAUSE).await;
                return Ok(None);
            }
            Err(_) => Outcome::Unknown,
        };
        let is_unknown = outcome == Outcome::Unknown;
        self.operations.push(Operation { object: object.clone(), change, outcome });
        if is_unknown && sent.is_ok() {
            sleep(RETRY_PAUSE).await;
        }
        sent
    }
}

/// Sends a change. Returns None if the server did not execute it and said so; an error if the connection broke.
pub(crate) async fn send(
    connection: &mut Connection,
    object: &ObjectId,
    change: &Change,
) -> Result<Option<Outcome>> {
    let (method, path, body) = request_of(object, change);
    let (code, answer) = connection.json(method, &path, Some(&body)).await?;
    Ok(match code {
        StatusCode::TOO_MANY_REQUESTS => None,
        _ if code.is_server_error() => Some(Outcome::Unknown),
        _ if !code.is_success() => Some(Outcome::Rejected { code: code.as_u16() }),
        _ if matches!(change, Change::Delete { .. }) => Some(Outcome::Acknowledged(None)),
        _ => {
            let (_, version) = objects::parse(object.kind, &answer)?.unzip();
            Some(Outcome::Acknowledged(version))
        }
    })
}

fn request_of(object: &ObjectId, change: &Change) -> (Method, String, Value) {
    let path = objects::path(object);
    match change {
        Change::Create(content) => {
            (Method::POST, objects::collection(object.kind, true), objects::body(object, content, None))
        }
        Change::Replace { content, expected } => {
            (Method::PUT, path, objects::body(object, content, *expected))
        }
        Change::Patch { stamp } => (Method::PATCH, path, objects::patch_body(object, stamp)),
        Change::Delete { expected } => {
            let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            if let Some(revision) = expected {
                options["preconditions"] = json!({"resourceVersion": revision.to_string()});
            }
            (Method::DELETE, path, options)
        }
    }
}
