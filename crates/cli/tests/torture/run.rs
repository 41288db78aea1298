//! A run: rounds of starting, verifying, writing and killing on one store.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use coracle_base::{Rng, Task};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Protocol, Target};
use crate::model::{Kind, Operation, PossibleStates, Rule, Violation};
use crate::objects;
use crate::options::Options;
use crate::plan::{End, Engine, RoundPlan};
use crate::processes::{self, Etcd, Server};
use crate::tally::Tally;
use crate::verifier::Verifier;
use crate::watcher::{Journal, Watcher};
use crate::writer::Writer;

/// Enough for group commits in the store.
const WRITERS: usize = 6;

/// Two of each kind: one of the namespace, one of all namespaces.
const WATCHES: usize = 4;

/// Maximum time for clients to end after their server has ended: their longest request timeout.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// How often progress is printed.
const PROGRESS_ROUNDS: u64 = 10;

/// Reason why a run ended before its last round.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server violated guarantees.
    Violations(Vec<Violation>),
    /// The run itself failed.
    Broken(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// The clients of one server.
struct Clients {
    watches: Vec<Task<Watcher>>,
    stop: CancellationToken,
}

/// A run on one store.
pub(crate) struct Run {
    engine: Engine,
    data_dir: PathBuf,
    port: u16,
    etcd: Option<Etcd>,
    rng: Rng,
    writers: Vec<Writer>,
    /// Empty while watchers run, and before the first server.
    watchers: Vec<Watcher>,
    verifier: Verifier,
    pub(crate) tally: Tally,
}

impl Run {
    /// Prepares a run with all files below `dir`.
    pub(crate) fn new(engine: Engine, options: &Options, seed: u64, dir: &Path) -> Result<Self> {
        // Ports do not come from the seed: a concurrent run may use them.
        let (mut rng, mut ports) = (Rng::seeded(seed), Rng::from_entropy());
        let etcd = match engine {
            Engine::Disk => None,
            Engine::Etcd => Some(Etcd::new(&options.etcd, &dir.join("etcd"), &mut ports)?),
        };
        let writers = (0..WRITERS).map(|number| Writer::new(number, rng.fork())).collect();
        Ok(Self {
            engine,
            data_dir: dir.join("data"),
            port: processes::free_port(&mut ports, None)?,
            etcd,
            rng,
            writers,
            watchers: Vec::new(),
            verifier: Verifier::new(PossibleStates::default()),
            tally: Tally::default(),
        })
    }

    /// Runs all rounds and verifies the last one. All processes have ended afterwards.
    pub(crate) async fn rounds(&mut self, rounds: u64, report: impl Fn(&Tally)) -> Result<(), Failure> {
        if let Some(etcd) = &mut self.etcd {
            etcd.start().await?;
        }
        let outcome = self.all_rounds(rounds, report).await;
        if let Some(etcd) = &mut self.etcd {
            etcd.kill().await?;
        }
        outcome
    }

    async fn all_rounds(&mut self, rounds: u64, report: impl Fn(&Tally)) -> Result<(), Failure> {
        let mut operations = Vec::new();
        for round in 1..=rounds {
            self.tally.rounds = round;
            let plan = RoundPlan::draw(self.engine, &mut self.rng);
            operations = self.round(&plan, operations).await?;
            if round % PROGRESS_ROUNDS == 0 {
                report(&self.tally);
            }
        }
        self.finish(operations).await
    }

    /// Runs one round that loses writes, and verifies it.
    pub(crate) async fn round_losing_writes(&mut self) -> Result<(), Failure> {
        let operations = self.round(&RoundPlan::losing_writes(), Vec::new()).await?;
        self.finish(operations).await
    }

    /// Verifies the last round on a server that is then stopped with SIGTERM.
    async fn finish(&mut self, operations: Vec<Operation>) -> Result<(), Failure> {
        if self.engine == Engine::Disk {
            processes::check_store(&self.data_dir)
                .await
                .map_err(|error| unavailable("coracle store check", &error))?;
        }
        let (server, target) = self.start(true).await?;
        let clients = self.verified(&target, operations).await?;
        stop(server).await.map_err(|error| unavailable("server", &error))?;
        Ok(self.join(clients).await?)
    }

    /// Starts a server, verifies the last round, writes, and ends the server. Returns the requests.
    async fn round(
        &mut self,
        plan: &RoundPlan,
        operations: Vec<Operation>,
    ) -> Result<Vec<Operation>, Failure> {
        if plan.has_new_port {
            self.port = processes::free_port(&mut Rng::from_entropy(), Some(self.port))?;
        }
        if let Some(time) = plan.killed_start {
            let server = Server::spawn(&self.data_dir, &self.store(), self.port, plan.has_controllers)?;
            sleep(time).await;
            server.kill().await.map_err(|error| unavailable("server", &error))?;
            self.tally.killed_starts += 1;
        }
        let (server, target) = self.start(plan.has_controllers).await?;
        let clients = self.verified(&target, operations).await?;
        let write = |writer: Writer| Task::spawn("writer", writer.run(target.clone(), clients.stop.clone()));
        let writing: Vec<_> = std::mem::take(&mut self.writers).into_iter().map(write).collect();
        self.faults(plan).await?;
        self.end(server, plan).await?;
        clients.stop.cancel();
        for writer in writing {
            let ended = timeout(JOIN_LIMIT, writer).await.context("a writer does not end")?;
            self.writers.push(ended.context("a writer failed")?);
        }
        self.join(clients).await?;
        let operations: Vec<_> = self.writers.iter_mut().flat_map(Writer::take_operations).collect();
        self.tally.count(&operations);
        Ok(operations)
    }

    /// Ends the server, and etcd if planned.
    async fn end(&mut self, server: Server, plan: &RoundPlan) -> Result<(), Failure> {
        let etcd = self.etcd.as_mut().filter(|_| plan.ends_etcd);
        let ended = match (plan.end, etcd) {
            (End::Terminate, _) => stop(server).await,
            (End::Kill, None) => server.kill().await,
            (End::Kill, Some(etcd)) => {
                let (ended, killed) = tokio::join!(server.kill(), etcd.kill());
                killed?;
                etcd.start().await?;
                self.tally.etcd_kills += 1;
                ended
            }
        };
        ended.map_err(|error| unavailable("server", &error))?;
        if plan.loses_writes {
            let [store, older] = ["store", "older"].map(|name| self.data_dir.join(name));
            fs::remove_dir_all(&store).context("cannot remove the store")?;
            fs::rename(older, store).context("cannot put the older store in its place")?;
        }
        Ok(())
    }

    /// Waits while the writers write; kills and restarts etcd if planned.
    async fn faults(&mut self, plan: &RoundPlan) -> Result<()> {
        if plan.loses_writes {
            sleep(plan.writing / 2).await;
            copy_files(&self.data_dir.join("store"), &self.data_dir.join("older"))?;
            sleep(plan.writing / 2).await;
            return Ok(());
        }
        let Some((etcd, time)) = self.etcd.as_mut().zip(plan.etcd_kill) else {
            sleep(plan.writing).await;
            return Ok(());
        };
        sleep(time).await;
        etcd.kill().await?;
        etcd.start().await?;
        self.tally.etcd_kills += 1;
        sleep(plan.writing.saturating_sub(time)).await;
        Ok(())
    }

    /// Starts a server and waits until it is ready.
    async fn start(&self, has_controllers: bool) -> Result<(Server, Target), Failure> {
        let mut server = Server::spawn(&self.data_dir, &self.store(), self.port, has_controllers)?;
        let address = server.ready().await.map_err(|error| unavailable("server", &error))?;
        Ok((server, Target::new(&address.to_string(), &self.data_dir)?))
    }

    /// Resumes the watches and verifies the requests of the last round.
    async fn verified(&mut self, target: &Target, operations: Vec<Operation>) -> Result<Clients, Failure> {
        if self.watchers.is_empty() {
            self.watchers = new_watchers(target).await?;
        }
        let journals: Vec<(String, Kind, _)> =
            self.watchers.iter().map(|watcher| (watcher.name(), watcher.kind, watcher.journal())).collect();
        let stop = CancellationToken::new();
        let watch = |watcher: Watcher| Task::spawn("watcher", watcher.run(target.clone(), stop.clone()));
        let watches = std::mem::take(&mut self.watchers).into_iter().map(watch).collect();
        let verified = self.verifier.verify(target, operations, &journals).await?;
        self.tally.resumed += verified.resumed;
        self.tally.relisted += verified.relisted;
        if !verified.violations.is_empty() {
            return Err(Failure::Violations(verified.violations));
        }
        for writer in &mut self.writers {
            writer.settle(self.verifier.objects());
        }
        Ok(Clients { watches, stop })
    }

    async fn join(&mut self, clients: Clients) -> Result<()> {
        clients.stop.cancel();
        for watch in clients.watches {
            let ended = timeout(JOIN_LIMIT, watch).await.context("a watcher does not end")?;
            self.watchers.push(ended.context("a watcher failed")?);
        }
        Ok(())
    }

    fn store(&self) -> String {
        self.etcd.as_ref().map_or_else(|| "disk".to_owned(), |etcd| format!("etcd={}", etcd.url()))
    }
}

/// Creates watches from the lists of a new server, which have no objects of the writers yet.
async fn new_watchers(target: &Target) -> Result<Vec<Watcher>> {
    let mut connection = Connection::open(target, Protocol::Http2).await?;
    let mut watchers = Vec::new();
    for number in 0..WATCHES {
        // Both kinds for each scope.
        let kind = Kind::ALL[number / 2 % Kind::ALL.len()];
        let (revision, _) =
            objects::parse_list(kind, &connection.get(&objects::collection(kind, true)).await?)?;
        watchers.push(Watcher::new(number, kind, revision));
    }
    Ok(watchers)
}

/// Stops a server with SIGTERM; it must exit successfully.
async fn stop(server: Server) -> Result<()> {
    let status = server.terminate().await?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    // The store requires a directory that only its owner can write.
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn unavailable(subject: &str, error: &Error) -> Failure {
    let violation = Violation::new(Rule::Availability, subject, "it works", format!("{error:#}"));
    Failure::Violations(vec![violation])
}

/// A watcher's name, kind and journal.
pub(crate) type Watched = (String, Kind, std::sync::Arc<Journal>);
