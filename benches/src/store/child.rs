//! Child processes: this program in another role.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use coracle_benches::measure::{block_on, resident_bytes, start};
use coracle_store::{Put, Txn, disk};

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 2048;

/// Figures of a process that opened the store.
pub(crate) struct Opened {
    pub(crate) millis: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) live_bytes: u64,
}

/// Entry point of the child process.
pub(crate) fn run(role: &str, dir: &Path) {
    match role {
        "fill" => block_on(fill(dir)),
        "open" => block_on(open_and_tell(dir)),
        other => panic!("no such helper: {other}"),
    }
}

async fn fill(dir: &Path) {
    let store = disk::open(dir, disk::Options::default()).await.expect("a store");
    for chunk in (0..KEYS).collect::<Vec<_>>().chunks(64) {
        let txn = chunk.iter().fold(Txn::new(), |txn, n| {
            let key = format!("core/pods/namespace-{:03}/deployment-6d4cf56db6-{n:08}", n % 100);
            txn.put(Put::new(key, vec![*n as u8; VALUE_BYTES]))
        });
        store.commit(txn).await.expect("a commit");
    }
    println!("filled");
    // Until it is killed.
    std::future::pending::<()>().await;
}

async fn open_and_tell(dir: &Path) {
    let begin = start();
    let store = disk::open(dir, disk::Options::default()).await.expect("the store opens");
    let millis = begin.elapsed().as_millis();
    let stats = store.stats().await.expect("figures");
    assert_eq!(stats.keys, KEYS);
    println!("{millis} {} {}", resident_bytes(), stats.bytes);
    // Not closed, so that the next process also opens the store after a kill.
    std::process::abort();
}

fn spawn(role: &str, dir: &Path) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(["--child", role, "--dir"]).arg(dir).stdout(Stdio::piped());
    command.spawn().expect("the helper starts")
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it reports");
    line
}

pub(crate) fn fill_and_kill(dir: &Path) {
    let mut child = spawn("fill", dir);
    assert_eq!(first_line(&mut child).trim(), "filled");
    child.kill().expect("it can be killed");
    child.wait().expect("and is gone");
}

pub(crate) fn open(dir: &Path) -> Opened {
    let mut child = spawn("open", dir);
    let line = first_line(&mut child);
    child.wait().expect("it ends");
    let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let [millis, resident_bytes, live_bytes] = numbers[..] else { panic!("three figures, got {line:?}") };
    Opened { millis, resident_bytes, live_bytes }
}
