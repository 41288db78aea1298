//! Verification after each restart: writes a barrier, lists, waits until watches have reached the barrier, then
//! checks the rules.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, Protocol, Target};
use crate::model::{
    Change, Content, Kind, Objects, Operation, Outcome, PossibleStates, Revision, Round, Rule, Violation,
    check_round,
};
use crate::objects;
use crate::run::Watched;
use crate::writer;

/// Maximum time for the barrier on a server that has just started, whose etcd may still be electing a leader.
const BARRIER_LIMIT: Duration = Duration::from_secs(60);

/// Maximum time for a watch to deliver pending events.
const WATCH_LIMIT: Duration = Duration::from_secs(60);

/// Pause between attempts at the barrier.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Compares the state of a restarted server with the writes that its predecessors acknowledged.
pub(crate) struct Verifier {
    states: PossibleStates,
    objects: Objects,
    stamps: u64,
}

/// The result of one verification.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    pub(crate) violations: Vec<Violation>,
    pub(crate) resumed: u64,
    pub(crate) relisted: u64,
}

impl Verifier {
    pub(crate) fn new(states: PossibleStates) -> Self {
        Self { states, objects: Objects::new(), stamps: 0 }
    }

    /// The objects at the last verification.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Verifies the requests of the last round.
    pub(crate) async fn verify(
        &mut self,
        target: &Target,
        mut operations: Vec<Operation>,
        watches: &[Watched],
    ) -> Result<Verified> {
        let mut connection = Connection::open(target, Protocol::Http2).await?;
        let mut listed = Objects::new();
        let mut verified = Verified::default();
        for kind in Kind::ALL {
            let barrier = timeout(BARRIER_LIMIT, self.barrier(&mut connection, kind, &mut operations));
            let reached = barrier.await.context("the server takes no write in time")??;
            verified.violations.extend(unreached(watches, kind, reached).await);
        }
        let violations = self.states.apply(&operations);
        verified.violations.extend(violations);
        for kind in Kind::ALL {
            let body = connection.get(&objects::collection(kind, true)).await?;
            let (revision, objects) = objects::parse_list(kind, &body)?;
            verified.violations.extend(self.states.settle(kind, revision, &objects));
            listed.extend(objects);
        }
        let mut seen = Vec::new();
        for (name, kind, journal) in watches {
            let received = journal.take();
            verified.resumed += received.resumed;
            verified.relisted += received.relisted;
            verified.violations.extend(received.violations);
            seen.push((name.clone(), *kind, received.observations));
        }
        let round = Round { before: &self.objects, operations: &operations, watches: &seen, listed: &listed };
        verified.violations.extend(check_round(&round));
        self.objects = listed;
        Ok(verified)
    }

    /// Writes an object of its own until the write is acknowledged. Every request that the previous server sent to
    /// its etcd is then either applied or never will be.
    async fn barrier(
        &mut self,
        connection: &mut Connection,
        kind: Kind,
        operations: &mut Vec<Operation>,
    ) -> Result<Revision> {
        let object = objects::owned(kind, "barrier");
        loop {
            self.stamps += 1;
            let stamp = format!("b-{}", self.stamps);
            let content = Content { stamp: stamp.clone(), base: stamp };
            let change = if self.objects.contains_key(&object) {
                Change::Replace { content, expected: None }
            } else {
                Change::Create(content)
            };
            let Some(outcome) = writer::send(connection, &object, &change).await? else { continue };
            operations.push(Operation { object: object.clone(), change, outcome: outcome.clone() });
            match outcome {
                Outcome::Acknowledged(Some(version)) => return Ok(version.revision),
                Outcome::Rejected { code } => anyhow::bail!("the barrier is rejected with {code}"),
                _ => sleep(RETRY_PAUSE).await,
            }
        }
    }
}

/// Watches of a kind that do not reach a revision in time.
async fn unreached(watches: &[Watched], kind: Kind, revision: Revision) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, _, journal) in watches.iter().filter(|(_, watched, _)| *watched == kind) {
        if !matches!(timeout(WATCH_LIMIT, journal.reached(revision)).await, Ok(Ok(()))) {
            let found = format!("revision {}", journal.revision());
            violations.push(Violation::new(Rule::EventGap, name, format!("revision {revision}"), found));
        }
    }
    violations
}
