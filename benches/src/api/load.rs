//! Load generator: many connections with sequential requests, and the measurement.
//!
//! Each thread has its own runtime and its share of the connections; nothing moves between threads while the clock
//! runs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use coracle_benches::measure::{Samples, start};
use futures_util::future::join_all;

use crate::client::{Connection, Connector};
use crate::report::Measured;
use crate::usage::{Machine, Processes, own_cpu};

/// Maximum duration of a load; a hanging server fails the benchmark.
const LIMIT: Duration = Duration::from_secs(300);

/// Failures after which a connection stops: the run has failed anyway.
const FAILURES_PER_CONNECTION: u64 = 3;

/// A server under test.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) connector: Connector,
    pub(crate) processes: Processes,
}

/// Size of a load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) stop: Stop,
}

/// End condition of a load.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// After this number of operations.
    After(u64),
    /// After this duration.
    For(Duration),
}

/// Measures the CPU time of the processes between two moments.
pub(crate) struct Meter<'a> {
    target: &'a Target,
    begin: Instant,
    server: Duration,
    client: Duration,
    machine: Machine,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(target: &'a Target) -> Result<Self> {
        let (server, client, machine) = (target.processes.cpu()?, own_cpu()?, Machine::now()?);
        Ok(Self { target, server, client, machine, begin: start() })
    }

    /// Returns the figures of `operations` since the start.
    pub(crate) fn stop(self, operations: u64, bytes: u64, mut samples: Samples) -> Result<Measured> {
        let elapsed = self.begin.elapsed();
        let server = self.target.processes.cpu()?.saturating_sub(self.server);
        let client = own_cpu()?.saturating_sub(self.client);
        let machine = Machine::now()?;
        let busy = machine.busy.saturating_sub(self.machine.busy).saturating_sub(server + client);
        let total = machine.total.saturating_sub(self.machine.total);
        let server = (!self.target.processes.0.is_empty()).then_some(server);
        let others = server.map(|_| busy.as_secs_f64() / total.as_secs_f64().max(f64::EPSILON));
        Ok(Measured::new(operations, bytes, elapsed, &mut samples).with_cpu(server, client, others))
    }
}

/// Runs `operation` with the numbers from 0 on, distributed over the connections. It returns the number of bytes
/// received. Any failure fails the run.
pub(crate) fn run(
    target: &Target,
    load: Load,
    operation: impl AsyncFn(&mut Connection, u64) -> Result<u64> + Sync,
) -> Result<Measured> {
    let threads = load.threads.clamp(1, load.connections.max(1));
    let (barrier, next) = (Barrier::new(threads + 1), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let share = load.connections / threads + usize::from(thread < load.connections % threads);
                let (barrier, next, operation) = (&barrier, &next, &operation);
                scope.spawn(move || worker(target, share, load.stop, barrier, next, operation))
            })
            .collect();
        barrier.wait();
        let meter = Meter::start(target)?;
        let mut total = Tally::default();
        for worker in workers {
            total.add(worker.join().ok().context("a thread of the client panicked")??);
        }
        if let Some(failure) = total.failure {
            bail!("{} of {} requests failed, the first with {failure:#}", total.failures, total.operations);
        }
        meter.stop(total.operations, total.bytes, total.samples)
    })
}

fn worker(
    target: &Target,
    connections: usize,
    stop: Stop,
    barrier: &Barrier,
    next: &AtomicU64,
    operation: &impl AsyncFn(&mut Connection, u64) -> Result<u64>,
) -> Result<Tally> {
    let runtime = runtime()?;
    let connected = runtime.block_on(connect(&target.connector, connections));
    // Also after a failure, because the other threads wait here.
    barrier.wait();
    let mut connected = connected?;
    let deadline = match stop {
        Stop::After(_) => None,
        Stop::For(time) => Some(start() + time),
    };
    let limit = if let Stop::After(count) = stop { count } else { u64::MAX };
    let work = join_all(connected.iter_mut().map(|connection| {
        let numbers = || {
            let is_over = deadline.is_some_and(|deadline| start() >= deadline);
            let number = next.fetch_add(1, Ordering::Relaxed);
            (!is_over && number < limit).then_some(number)
        };
        repeat(connection, numbers, operation)
    }));
    let tallies = runtime.block_on(async { tokio::time::timeout(LIMIT, work).await });
    let mut total = Tally::default();
    tallies
        .context("the server does not keep up: the load ran into its limit")?
        .into_iter()
        .for_each(|tally| total.add(tally));
    Ok(total)
}

async fn repeat(
    connection: &mut Connection,
    numbers: impl Fn() -> Option<u64>,
    operation: &impl AsyncFn(&mut Connection, u64) -> Result<u64>,
) -> Tally {
    let mut tally = Tally::default();
    while tally.failures < FAILURES_PER_CONNECTION
        && let Some(number) = numbers()
    {
        let begin = start();
        let result = operation(connection, number).await;
        tally.operations += 1;
        tally.samples.push(begin.elapsed());
        match result {
            Ok(bytes) => tally.bytes += bytes,
            Err(failure) => {
                tally.failures += 1;
                tally.failure.get_or_insert(failure);
            }
        }
    }
    tally
}

/// Opens all connections at once, as clients do after a server restart.
pub(crate) async fn connect(connector: &Connector, count: usize) -> Result<Vec<Connection>> {
    join_all((0..count).map(|_| connector.connect())).await.into_iter().collect()
}

/// A single-threaded runtime.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[derive(Default)]
struct Tally {
    operations: u64,
    bytes: u64,
    samples: Samples,
    failures: u64,
    failure: Option<anyhow::Error>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.samples.extend(other.samples);
        self.failures += other.failures;
        self.failure = self.failure.take().or(other.failure);
    }
}
