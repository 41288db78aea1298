//! Repeatedly kills a writing process with SIGKILL: every write that it reported as acknowledged must be stored when
//! the store is reopened.
//!
//! Runs itself as the child, so it has its own `main`.

#![expect(clippy::print_stdout, reason = "a test with its own main reports for itself")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use coracle_base::Rng;
use coracle_store::{Put, RangeRequest, Revision, Store, disk};

const ROUNDS: u64 = 60;

/// The child is killed after it has reported between one and this many writes.
const MOST_WRITES: u64 = 120;

/// Writers in the child, so that batches hold more than one write.
const WRITERS: u64 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, dir, round] = arguments.as_slice()
        && role == "child"
    {
        child(Path::new(dir), round);
        return ExitCode::SUCCESS;
    }
    // With a filter for other tests, which cargo passes on, this test does not run.
    if arguments[1..]
        .iter()
        .any(|argument| !argument.starts_with('-') && !"kill9".contains(argument.as_str()))
    {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    parent();
    println!("kill9: {ROUNDS} rounds\n1 passed, 0 failed");
    ExitCode::SUCCESS
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

fn options() -> disk::Options {
    // Small, so that kills also hit segment creation and snapshots.
    disk::Options { segment_bytes: 32 << 10, snapshot_min_bytes: 32 << 10, ..disk::Options::default() }
}

/// Writes until killed, and prints each key when its write is acknowledged.
fn child(dir: &Path, round: &str) {
    block_on(async {
        let store = disk::open(dir, options()).await.expect("the store opens");
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write_for_ever(store.clone(), format!("{round}/{writer}")));
        }
        writers.join_next().await;
    });
}

async fn write_for_ever(store: Store, prefix: String) {
    for n in 0_u64.. {
        let key = format!("{prefix}/{n}");
        let value = format!("{key}:{}", "x".repeat((n % 700) as usize));
        let revision = store.put(Put::new(key.clone(), value)).await.expect("a write").revision;
        report(&key, revision);
        if n % 20 == 19 {
            store.compact(revision).await.expect("a compaction");
        }
    }
}

fn report(key: &str, revision: Revision) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{key} {revision}").and_then(|()| out.flush()).expect("the parent listens until it kills");
}

fn parent() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut rng = Rng::from_entropy();
    let mut acknowledged: BTreeMap<String, Revision> = BTreeMap::new();
    for round in 0..ROUNDS {
        let reported = run_child(dir.path(), round, 1 + rng.below(MOST_WRITES));
        acknowledged.extend(reported);
        block_on(verify(dir.path(), &acknowledged, round));
    }
    assert!(acknowledged.len() > ROUNDS as usize, "the children wrote something");
}

/// Reads the child's reports up to a number of them, kills it, and reads the remaining reports.
fn run_child(dir: &Path, round: u64, writes: u64) -> BTreeMap<String, Revision> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program)
        .args(["child".as_ref(), dir.as_os_str(), round.to_string().as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
    let mut reported: Vec<String> = Vec::new();
    for _ in 0..writes {
        reported.push(lines.next().expect("the child keeps running").expect("its output is text"));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("and is gone");
    reported.extend(lines.map_while(Result::ok));
    reported.iter().filter_map(|line| parse(line)).collect()
}

/// The last line may be truncated by the kill.
fn parse(line: &str) -> Option<(String, Revision)> {
    let (key, revision) = line.split_once(' ')?;
    Some((key.to_owned(), Revision::new(revision.parse().ok()?)))
}

async fn verify(dir: &Path, acknowledged: &BTreeMap<String, Revision>, round: u64) {
    let store = disk::open(dir, options()).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
    let found = store.range(RangeRequest::prefix("")).await.expect("a range").entries;
    let found: BTreeMap<_, _> =
        found.iter().map(|entry| (String::from_utf8_lossy(entry.key()).into_owned(), entry)).collect();
    for (key, revision) in acknowledged {
        let entry =
            found.get(key).unwrap_or_else(|| panic!("round {round}: {key} was acknowledged and is gone"));
        assert!(
            entry.value_bytes().starts_with(format!("{key}:").as_bytes()),
            "round {round}: {key} has a wrong value"
        );
        // A truncated report may have fewer digits of the revision.
        let same = entry.mod_revision() == *revision
            || entry.mod_revision().to_string().starts_with(&revision.to_string());
        assert!(same, "round {round}: {key} at {} was reported at {revision}", entry.mod_revision());
    }
    store.close().await.expect("the store closes cleanly");
}
