//! Watch fan-out: every write must reach every watcher; measures the delay.

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
use crate::workload::Form;

/// One in this many watchers parses the events; the others only count them, which costs less.
const READING_WATCHERS: usize = 25;

/// Objects created before the watch and patched during it.
const POOL: u64 = 64;

/// The text before an event's number in its object. A quote ends the number.
const NUMBER_KEY: &[u8] = b"\"seq\":\"";

/// The same in protobuf: a map entry, with the length of the number in the next byte.
const NUMBER_KEY_PROTOBUF: &[u8] = b"\x0a\x03seq\x12";

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// Length prefix of a protobuf event.
const LENGTH_BYTES: usize = 4;

/// Maximum delay of watchers after the last write.
const LAG_LIMIT: Duration = Duration::from_secs(60);

/// Parameters of a fan-out load.
#[derive(Clone, Copy)]
pub(crate) struct FanOut {
    pub(crate) watchers: usize,
    pub(crate) writers: usize,
    pub(crate) threads: usize,
    /// Half of them creates, half patches.
    pub(crate) writes: u64,
    /// Time between two writes; none for maximum rate.
    pub(crate) pace: Option<Duration>,
    /// Encoding of the events.
    pub(crate) form: Form,
    /// Number of the first event; objects are named after their numbers.
    pub(crate) first: u64,
}

impl FanOut {
    /// The first unused number.
    pub(crate) fn end(&self) -> u64 {
        self.first + POOL + self.writes
    }
}

/// The time at which each write was sent.
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

    /// Time since the write of this event was sent.
    fn latency(&self, form: Form, event: &[u8]) -> Option<Duration> {
        let at = usize::try_from(number_in(form, event)?.checked_sub(self.first)?).ok()?;
        let sent = self.sent_nanos.get(at)?.load(Ordering::Relaxed);
        Some(Duration::from_nanos(self.nanos().saturating_sub(sent)))
    }
}

/// Delivered events per second, and their delay since the write was sent.
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
                let form = fan_out.form;
                scope.spawn(move || {
                    watchers(target, namespace, numbers, (form, revision), log, barrier, given_up)
                })
            })
            .collect();
        barrier.wait();
        let meter = Meter::start(target)?;
        let written = write(target, namespace, fan_out, &log);
        if written.is_err() {
            // Otherwise the watchers would wait for events that never come.
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

/// The watchers of one thread; each runs until it has received every write.
fn watchers(
    target: &Target,
    namespace: &Namespace,
    numbers: impl ExactSizeIterator<Item = usize>,
    (form, revision): (Form, &str),
    log: &Log,
    barrier: &Barrier,
    given_up: watch::Receiver<bool>,
) -> Result<Seen> {
    let runtime = load::runtime()?;
    let opened = runtime.block_on(async {
        let mut opened = Vec::with_capacity(numbers.len());
        let connections = load::connect(&target.connector, numbers.len()).await?;
        for (number, mut connection) in numbers.zip(connections) {
            let body = open(&mut connection, namespace, form, revision).await?;
            opened.push((number, Watcher { target, namespace, form, connection, body }));
        }
        anyhow::Ok(opened)
    });
    // Also after a failure, because the other threads wait here.
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

async fn open(
    connection: &mut Connection,
    namespace: &Namespace,
    form: Form,
    revision: &str,
) -> Result<Body> {
    let query = format!("?watch=1&resourceVersion={revision}");
    connection.open(namespace.list("configmaps", &query, form.media_type())).await
}

/// One streaming list of all pods, on its own connection, because the watch continues after it. Returns its bytes.
pub(crate) async fn streaming_list(target: &Target, namespace: &Namespace, form: Form) -> Result<u64> {
    // With any revision: with an etcd before 3.5, kube-apiserver cannot determine whether its cache is current.
    let query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                 &allowWatchBookmarks=true";
    let mut connection = target.connector.connect().await?;
    let mut body = connection.open(namespace.list("pods", query, form.media_type())).await?;
    // The end of the previous chunk, in which the annotation may begin.
    let (mut bytes, mut before) = (0, Vec::new());
    while let Some(chunk) = connection.chunk(&mut body).await? {
        bytes += chunk.len() as u64;
        before.extend_from_slice(chunk);
        if before.windows(INITIAL_EVENTS_END.len()).any(|window| window == INITIAL_EVENTS_END) {
            return Ok(bytes);
        }
        before.drain(..before.len().saturating_sub(INITIAL_EVENTS_END.len()));
    }
    bail!("a streaming list ended without its bookmark")
}

/// A watch that is resumed after it ends, as clients do.
struct Watcher<'a> {
    target: &'a Target,
    namespace: &'a Namespace,
    form: Form,
    connection: Connection,
    body: Body,
}

impl Watcher<'_> {
    async fn resume(&mut self, last_event: &[u8]) -> Result<()> {
        if self.form == Form::Protobuf {
            bail!("a watch in protobuf ended early");
        }
        let revision = revision_in(last_event).context("a watch ended before its first event")?;
        let mut connections = load::connect(&self.target.connector, 1).await?;
        self.connection = connections.pop().context("no connection")?;
        self.body = open(&mut self.connection, self.namespace, self.form, &revision).await?;
        Ok(())
    }
}

/// The last complete event of a stream, for any segmentation.
#[derive(Default)]
struct LastEvent {
    /// The bytes from the beginning of the last complete event on.
    bytes: Vec<u8>,
}

impl LastEvent {
    fn take_in(&mut self, chunk: &[u8]) {
        let ends_before = |end: usize| chunk[..end].iter().rposition(|byte| *byte == b'\n');
        if let Some(before) = ends_before(chunk.len()).and_then(ends_before) {
            // Nearly every chunk contains several events, of which only the last is needed.
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
    let (mut events, mut last) = (Events::new(watcher.form), LastEvent::default());
    let expected = log.sent_nanos.len() as u64;
    while seen.events < expected {
        let chunk = tokio::select! {
            chunk = tokio::time::timeout(LAG_LIMIT, watcher.connection.chunk(&mut watcher.body)) => chunk,
            _ = given_up.wait_for(|given_up| *given_up) => bail!("the writers failed"),
        };
        let chunk = chunk.context("a watcher did not receive all events")??;
        let Some(chunk) = chunk else {
            watcher.resume(last.event()).await.with_context(|| format!("after {} events", seen.events))?;
            seen.resumed += 1;
            events = Events::new(watcher.form);
            last = LastEvent::default();
            continue;
        };
        seen.bytes += chunk.len() as u64;
        if watcher.form == Form::Json {
            last.take_in(chunk);
        }
        if reads {
            events.read(chunk, |event| {
                seen.events += 1;
                log.latency(watcher.form, event).into_iter().for_each(|latency| seen.samples.push(latency));
            });
        } else {
            seen.events += events.count(chunk);
        }
    }
    Ok(seen)
}

/// Splits a stream into events, for any segmentation.
struct Events {
    form: Form,
    /// The beginning of an incomplete event; in protobuf with its length prefix.
    partial: Vec<u8>,
    /// Remaining bytes of a protobuf event that is only counted.
    left: usize,
}

impl Events {
    fn new(form: Form) -> Self {
        Self { form, partial: Vec::new(), left: 0 }
    }

    /// Counts the events that end in the next chunk. Must not be mixed with [`Events::read`].
    fn count(&mut self, mut chunk: &[u8]) -> u64 {
        if self.form == Form::Json {
            return chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        let mut events = 0;
        while !chunk.is_empty() {
            if self.left == 0 {
                let (length, rest) = chunk.split_at(chunk.len().min(LENGTH_BYTES - self.partial.len()));
                self.partial.extend_from_slice(length);
                chunk = rest;
                if let Ok(length) = <[u8; LENGTH_BYTES]>::try_from(&*self.partial) {
                    self.left = u32::from_be_bytes(length) as usize;
                    self.partial.clear();
                }
                continue;
            }
            let taken = chunk.len().min(self.left);
            self.left -= taken;
            events += u64::from(self.left == 0);
            chunk = &chunk[taken..];
        }
        events
    }

    /// Calls `on_event` for every event completed by `chunk`, and buffers the rest.
    fn read(&mut self, chunk: &[u8], mut on_event: impl FnMut(&[u8])) {
        self.partial.extend_from_slice(chunk);
        let mut rest = &*self.partial;
        while let Some((event, after)) = split_event(self.form, rest) {
            on_event(event);
            rest = after;
        }
        let kept = self.partial.len() - rest.len();
        self.partial.drain(..kept);
    }
}

/// The first event of a stream, if complete, and the rest.
fn split_event(form: Form, stream: &[u8]) -> Option<(&[u8], &[u8])> {
    match form {
        Form::Json => {
            let end = stream.iter().position(|byte| *byte == b'\n')?;
            Some((&stream[..end], &stream[end + 1..]))
        }
        Form::Protobuf => {
            let (length, rest) = stream.split_first_chunk::<LENGTH_BYTES>()?;
            rest.split_at_checked(u32::from_be_bytes(*length) as usize)
        }
    }
}

fn number_in(form: Form, event: &[u8]) -> Option<u64> {
    let key = if form == Form::Json { NUMBER_KEY } else { NUMBER_KEY_PROTOBUF };
    let at = event.windows(key.len()).position(|window| window == key)? + key.len();
    let digits = match form {
        Form::Json => event[at..].split(|byte| *byte == b'"').next()?,
        Form::Protobuf => {
            let (length, rest) = event[at..].split_first()?;
            rest.get(..usize::from(*length))?
        }
    };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[derive(Default)]
struct Seen {
    events: u64,
    /// Number of times that the server ended a watch.
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
    fn events_are_split_for_any_segmentation() {
        let lines = b"{\"a\":1}\n{\"bb\":2}\n{\"c\":3}\n";
        let frames = b"\0\0\0\x07{\"a\":1}\0\0\0\x08{\"bb\":2}\0\0\0\x07{\"c\":3}";
        let streams = [(Form::Json, &lines[..]), (Form::Protobuf, &frames[..])];
        for (form, stream, size) in streams
            .into_iter()
            .flat_map(|(form, stream)| (1..stream.len()).map(move |size| (form, stream, size)))
        {
            let (mut reader, mut counter) = (Events::new(form), Events::new(form));
            let (mut events, mut counted) = (Vec::new(), 0);
            for chunk in stream.chunks(size) {
                counted += counter.count(chunk);
                reader.read(chunk, |event| events.push(String::from_utf8(event.to_vec()).unwrap()));
            }
            assert_eq!(events, ["{\"a\":1}", "{\"bb\":2}", "{\"c\":3}"], "in pieces of {size}");
            assert_eq!((counted, reader.partial.len()), (3, 0));
        }
    }

    #[test]
    fn last_event_is_found_for_any_segmentation() {
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
    fn number_is_not_confused_with_managed_fields() {
        let event = br#"{"object":{"managedFields":[{"f:data":{"f:seq":{}}}],"data":{"seq":"42"}}}"#;
        assert_eq!(number_in(Form::Json, event), Some(42));
        assert_eq!(number_in(Form::Json, b"{}"), None);
        let event = b"f:data{f:seq}\x12\x09\x0a\x03seq\x12\x0242\x0a\x03";
        assert_eq!(number_in(Form::Protobuf, event), Some(42));
        assert_eq!(number_in(Form::Protobuf, b"\x0a\x03seq\x12\x09"), None);
    }
}
