//! Watch fan-out: every write reaches every watcher, and how fast.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use coracle_benches::measure::{Samples, start};
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::client::{Body, Connection};
use crate::load::{self, Load, Meter, Stop, Target};
use crate::objects::{JSON, Namespace};
use crate::report::Measured;

/// Every so many-th watcher reads the events; the others only count them, which costs less.
const READING_WATCHERS: usize = 25;

/// Objects that are there before the watch begins and are patched during it.
const POOL: u64 = 64;

/// What precedes the number of an event in its object.
const NUMBER_KEY: &[u8] = b"\"seq\":\"";

/// How long watchers may lag behind the last write.
const LAG_LIMIT: Duration = Duration::from_secs(60);

/// What is watched and written.
#[derive(Clone, Copy)]
pub(crate) struct FanOut {
    pub(crate) watchers: usize,
    pub(crate) writers: usize,
    pub(crate) threads: usize,
    /// Half of them creations, half of them patches.
    pub(crate) writes: u64,
    /// Time between two writes; none means as fast as they go.
    pub(crate) pace: Option<Duration>,
    /// The number of the first event: objects are named after these numbers.
    pub(crate) first: u64,
}

impl FanOut {
    /// The first number that is not used.
    pub(crate) fn end(&self) -> u64 {
        self.first + POOL + self.writes
    }
}

/// When each write was sent, for those who see its event.
struct Log {
    origin: Instant,
    first: u64,
    sent_nanos: Vec<AtomicU64>,
}

impl Log {
    fn new(first: u64, writes: u64) -> Self {
        Self { origin: start(), first, sent_nanos: (0..writes).map(|_| AtomicU64::new(0)).collect() }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sent(&self, number: u64) {
        self.sent_nanos[number as usize].store(self.nanos(), Ordering::Relaxed);
    }

    /// How long ago the write was sent whose event this is.
    fn latency(&self, event: &[u8]) -> Option<Duration> {
        let at = usize::try_from(number_in(event)?.checked_sub(self.first)?).ok()?;
        let sent = self.sent_nanos.get(at)?.load(Ordering::Relaxed);
        Some(Duration::from_nanos(self.nanos().saturating_sub(sent)))
    }
}

/// Delivered events: how many a second, and how long after the write was sent.
pub(crate) fn run(target: &Target, namespace: &Namespace, fan_out: FanOut) -> Result<Measured> {
    let pool = Load { connections: 4, threads: 1, stop: Stop::After(POOL) };
    load::run(target, pool, async |connection: &mut Connection, n| {
        connection.count(namespace.create_event_source(fan_out.first + n)).await
    })?;
    let revision = load::runtime()?.block_on(revision(target, namespace))?;
    let log = Log::new(fan_out.first + POOL, fan_out.writes);
    let threads = fan_out.threads.clamp(1, fan_out.watchers);
    let barrier = Barrier::new(threads + 1);
    let (give_up, given_up) = watch::channel(false);
    std::thread::scope(|scope| {
        let watchers: Vec<_> = (0..threads)
            .map(|thread| {
                let numbers = (thread..fan_out.watchers).step_by(threads);
                let (log, barrier, revision, given_up) = (&log, &barrier, &*revision, given_up.clone());
                scope.spawn(move || watchers(target, namespace, numbers, revision, log, barrier, given_up))
            })
            .collect();
        barrier.wait();
        let meter = Meter::start(target)?;
        let written = write(target, namespace, fan_out, &log);
        if written.is_err() {
            // The watchers would wait for events that never come.
            let _ = give_up.send(true);
        }
        let mut total = Seen::default();
        for watcher in watchers {
            total.add(watcher.join().ok().context("a thread of the client panicked")??);
        }
        written?;
        meter.stop(total.events, total.bytes, total.samples)
    })
}

async fn revision(target: &Target, namespace: &Namespace) -> Result<String> {
    let mut connection = target.connector.connect().await?;
    let list = connection.fetch(namespace.list("configmaps", "?limit=1", JSON)).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    Ok(revision.context("the list has no resourceVersion")?.to_owned())
}

fn write(target: &Target, namespace: &Namespace, fan_out: FanOut, log: &Log) -> Result<Measured> {
    let begin = start();
    let load = Load { connections: fan_out.writers, threads: 1, stop: Stop::After(fan_out.writes) };
    load::run(target, load, async |connection: &mut Connection, n| {
        if let Some(pace) = fan_out.pace {
            tokio::time::sleep_until((begin + pace.mul_f64(n as f64)).into()).await;
        }
        let number = fan_out.first + POOL + n;
        let request = if n % 2 == 0 {
            namespace.create_event_source(number)
        } else {
            namespace.merge_patch(&format!("event-{}", fan_out.first + n / 2 % POOL), number)
        };
        log.sent(n);
        connection.count(request).await
    })
}

/// All watchers of one thread, each until it has seen every write.
fn watchers(
    target: &Target,
    namespace: &Namespace,
    numbers: impl ExactSizeIterator<Item = usize>,
    revision: &str,
    log: &Log,
    barrier: &Barrier,
    given_up: watch::Receiver<bool>,
) -> Result<Seen> {
    let runtime = load::runtime()?;
    let opened = runtime.block_on(async {
        let mut opened = Vec::with_capacity(numbers.len());
        let connections = load::connect(&target.connector, numbers.len()).await?;
        for (number, mut connection) in numbers.zip(connections) {
            let body = open(&mut connection, namespace, revision).await?;
            opened.push((number, Watcher { target, namespace, connection, body }));
        }
        anyhow::Ok(opened)
    });
    // Also if it failed: the others wait here.
    barrier.wait();
    let watching =
        join_all(opened?.into_iter().map(|(number, watcher)| {
            watch_all(watcher, log, number % READING_WATCHERS == 0, given_up.clone())
        }));
    let mut total = Seen::default();
    for seen in runtime.block_on(watching) {
        total.add(seen?);
    }
    Ok(total)
}

async fn open(connection: &mut Connection, namespace: &Namespace, revision: &str) -> Result<Body> {
    let query = format!("?watch=1&resourceVersion={revision}");
    connection.open(namespace.list("configmaps", &query, JSON)).await
}

/// One watch, which is begun again where it ended, as clients do.
struct Watcher<'a> {
    target: &'a Target,
    namespace: &'a Namespace,
    connection: Connection,
    body: Body,
}

impl Watcher<'_> {
    async fn resume(&mut self, last_event: &[u8]) -> Result<()> {
        let revision = revision_in(last_event).context("a watch ended before its first event")?;
        let mut connections = load::connect(&self.target.connector, 1).await?;
        self.connection = connections.pop().context("no connection")?;
        self.body = open(&mut self.connection, self.namespace, &revision).await?;
        Ok(())
    }
}

/// The last event of a stream that is whole, however it is cut.
#[derive(Default)]
struct LastEvent {
    /// From the beginning of the last whole event on.
    bytes: Vec<u8>,
}

impl LastEvent {
    fn take_in(&mut self, chunk: &[u8]) {
        let ends_before = |end: usize| chunk[..end].iter().rposition(|byte| *byte == b'\n');
        if let Some(before) = ends_before(chunk.len()).and_then(ends_before) {
            // Nearly every piece holds several events, of which only the last matters.
            self.bytes.clear();
            self.bytes.extend_from_slice(&chunk[before + 1..]);
            return;
        }
        self.bytes.extend_from_slice(chunk);
        let mut ends = self.bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        if let (Some(_), Some((before, _))) = (ends.next(), ends.next()) {
            self.bytes.drain(..=before);
        }
    }

    fn event(&self) -> &[u8] {
        let end = self.bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
        &self.bytes[..end]
    }
}

fn revision_in(event: &[u8]) -> Option<String> {
    let event: serde_json::Value = serde_json::from_slice(event).ok()?;
    event["object"]["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

async fn watch_all(
    mut watcher: Watcher<'_>,
    log: &Log,
    reads: bool,
    mut given_up: watch::Receiver<bool>,
) -> Result<Seen> {
    let mut seen = Seen::default();
    let (mut partial, mut last) = (Vec::new(), LastEvent::default());
    let expected = log.sent_nanos.len() as u64;
    while seen.events < expected {
        let chunk = tokio::select! {
            chunk = tokio::time::timeout(LAG_LIMIT, watcher.connection.chunk(&mut watcher.body)) => chunk,
            _ = given_up.wait_for(|given_up| *given_up) => bail!("the writers failed"),
        };
        let chunk = chunk.context("a watcher does not get all events")??;
        let Some(chunk) = chunk else {
            watcher.resume(last.event()).await.with_context(|| format!("after {} events", seen.events))?;
            seen.resumed += 1;
            partial.clear();
            last = LastEvent::default();
            continue;
        };
        last.take_in(chunk);
        seen.bytes += chunk.len() as u64;
        seen.events += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        if reads {
            read_events(&mut partial, chunk, |event| {
                log.latency(event).into_iter().for_each(|latency| seen.samples.push(latency))
            });
        }
    }
    Ok(seen)
}

/// Hands on every event that is whole with `chunk`, and keeps the rest for the next.
fn read_events(partial: &mut Vec<u8>, chunk: &[u8], mut on_event: impl FnMut(&[u8])) {
    let mut rest = chunk;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        if partial.is_empty() {
            on_event(&rest[..end]);
        } else {
            partial.extend_from_slice(&rest[..end]);
            on_event(partial);
            partial.clear();
        }
        rest = &rest[end + 1..];
    }
    partial.extend_from_slice(rest);
}

fn number_in(event: &[u8]) -> Option<u64> {
    let at = event.windows(NUMBER_KEY.len()).position(|window| window == NUMBER_KEY)? + NUMBER_KEY.len();
    let digits = event[at..].split(|byte| *byte == b'"').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[derive(Default)]
struct Seen {
    events: u64,
    /// How often the server ended a watch.
    resumed: u64,
    bytes: u64,
    samples: Samples,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.events += other.events;
        self.resumed += other.resumed;
        self.bytes += other.bytes;
        self.samples.extend(other.samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_they_are_cut() {
        let stream = b"{\"a\":1}\n{\"bb\":2}\n{\"c\":3}\n";
        for size in 1..stream.len() {
            let (mut partial, mut events) = (Vec::new(), Vec::new());
            for chunk in stream.chunks(size) {
                read_events(&mut partial, chunk, |event| {
                    events.push(String::from_utf8(event.to_vec()).unwrap())
                });
            }
            assert_eq!(events, ["{\"a\":1}", "{\"bb\":2}", "{\"c\":3}"], "in pieces of {size}");
            assert!(partial.is_empty());
        }
    }

    #[test]
    fn the_last_event_is_known_however_the_stream_is_cut() {
        let stream = br#"{"object":{"metadata":{"resourceVersion":"7"}}}
{"object":{"metadata":{"resourceVersion":"8"}}}
{"object":{"meta"#;
        for size in 1..stream.len() {
            let mut last = LastEvent::default();
            stream.chunks(size).for_each(|chunk| last.take_in(chunk));
            assert_eq!(revision_in(last.event()).as_deref(), Some("8"), "in pieces of {size}");
        }
        assert_eq!(revision_in(LastEvent::default().event()), None);
    }

    #[test]
    fn the_number_is_not_mistaken_for_the_owned_field() {
        let event = br#"{"object":{"managedFields":[{"f:data":{"f:seq":{}}}],"data":{"seq":"42"}}}"#;
        assert_eq!(number_in(event), Some(42));
        assert_eq!(number_in(b"{}"), None);
    }
}
