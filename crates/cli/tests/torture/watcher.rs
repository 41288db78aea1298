//! A client that watches a kind, and resumes after each restart of the server from the last revision it observed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Protocol, Target};
use crate::model::{Kind, Observation, Revision, Violation, WatchView};
use crate::objects;

/// Pause before a watch is reopened that the server ended, or rejected because its etcd is down.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Longer than any object of the writers.
const MAX_LINE_BYTES: usize = 1 << 20;

/// A watch, resumed on every server of the run.
pub(crate) struct Watcher {
    number: usize,
    pub(crate) kind: Kind,
    /// True for a watch of one namespace, false for one of all namespaces.
    is_namespaced: bool,
    has_bookmarks: bool,
    view: WatchView,
    journal: Arc<Journal>,
}

/// The events that a watcher received since the last verification, shared with the verifier.
pub(crate) struct Journal {
    observations: Mutex<Received>,
    /// The revision that the watch has reached.
    revision: watch::Sender<Revision>,
}

#[derive(Default)]
pub(crate) struct Received {
    pub(crate) observations: Vec<Observation>,
    /// Violations of the watch's ordering guarantees.
    pub(crate) violations: Vec<Violation>,
    pub(crate) resumed: u64,
    pub(crate) relisted: u64,
}

impl Journal {
    fn record(&self, write: impl FnOnce(&mut Received)) {
        write(&mut self.observations.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns everything received since the last call.
    pub(crate) fn take(&self) -> Received {
        std::mem::take(&mut self.observations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the watch has reached a revision.
    pub(crate) async fn reached(&self, revision: Revision) -> Result<()> {
        self.revision.subscribe().wait_for(|seen| *seen >= revision).await?;
        Ok(())
    }

    pub(crate) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }
}

/// Reason why a watch ended.
enum Ended {
    /// The connection broke, or the server ended the watch.
    Broken,
    /// 410 Gone: the history after the last revision is compacted.
    Gone,
}

impl Watcher {
    /// Creates a watch that starts at the revision of a list.
    pub(crate) fn new(number: usize, kind: Kind, revision: Revision) -> Self {
        let (is_namespaced, has_bookmarks) = (number.is_multiple_of(2), number % 4 < 2);
        let scope = if is_namespaced { "in the namespace" } else { "everywhere" };
        let name = format!("watch {number} of {} {scope}", kind.name());
        let view = WatchView::new(name, revision, Default::default());
        let journal = Journal { observations: Mutex::default(), revision: watch::Sender::new(revision) };
        Self { number, kind, is_namespaced, has_bookmarks, view, journal: Arc::new(journal) }
    }

    pub(crate) fn name(&self) -> String {
        self.view.name().to_owned()
    }

    pub(crate) fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// Watches until stopped, or until the server accepts no more connections.
    pub(crate) async fn run(mut self, target: Target, stop: CancellationToken) -> Self {
        while !stop.is_cancelled() {
            let Ok(mut connection) = Connection::open(&target, Protocol::of(self.number)).await else {
                break;
            };
            let watched = tokio::select! {
                // Safe to drop: each line is recorded before the next await.
                watched = self.watch(&mut connection) => watched,
                // Safe to drop: only waits.
                () = stop.cancelled() => break,
            };
            if let Ok(Ended::Gone) = watched {
                // If this fails, the watch gets 410 again.
                let _ = self.relist(&mut connection).await;
            }
            sleep(RETRY_PAUSE).await;
        }
        self
    }

    async fn watch(&mut self, connection: &mut Connection) -> Result<Ended> {
        let path = objects::collection(self.kind, self.is_namespaced);
        let (bookmarks, revision) = (self.has_bookmarks, self.view.revision);
        let path = format!("{path}?watch=true&allowWatchBookmarks={bookmarks}&resourceVersion={revision}");
        let response = connection.send(Method::GET, &path, None).await?;
        match response.status() {
            StatusCode::OK => self.journal.record(|received| received.resumed += 1),
            StatusCode::GONE => return Ok(Ended::Gone),
            code => bail!("{path}: {code}"),
        }
        let (mut body, mut buffer) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                match objects::parse_watch_line(self.kind, &line) {
                    Ok(Some(observation)) => self.observe(observation),
                    Ok(None) => return Ok(Ended::Gone),
                    Err(error) => self.malformed(&error),
                }
            }
            if buffer.len() > MAX_LINE_BYTES {
                bail!("a line of more than {MAX_LINE_BYTES} bytes");
            }
        }
        Ok(Ended::Broken)
    }

    fn observe(&mut self, observation: Observation) {
        let violation = self.view.observe(&observation).err();
        self.journal.record(|received| {
            received.relisted += u64::from(matches!(observation, Observation::Relist { .. }));
            received.observations.push(observation);
            received.violations.extend(violation);
        });
        self.journal.revision.send_replace(self.view.revision);
    }

    fn malformed(&self, error: &anyhow::Error) {
        let name = self.view.name();
        let violation =
            Violation::new(crate::model::Rule::EventPhantom, name, "an event", format!("{error:#}"));
        self.journal.record(|received| received.violations.push(violation));
    }

    async fn relist(&mut self, connection: &mut Connection) -> Result<()> {
        let body = connection.get(&objects::collection(self.kind, self.is_namespaced)).await?;
        let (revision, objects) = objects::parse_list(self.kind, &body)?;
        self.observe(Observation::Relist { revision, objects });
        Ok(())
    }
}
