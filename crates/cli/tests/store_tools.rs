//! `coracle store` on intact, damaged and missing stores.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use coracle::Config;
use coracle::storage::{self, Put, Store};
use dir::TestDir;
use program::output;
use server::Server;
use tokio::process::Command;

/// Number of keys in the stores of these tests.
const KEYS: usize = 20;

/// The output of a tool.
#[derive(Debug)]
struct ToolOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl ToolOutput {
    /// Stdout of a successful run.
    fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Stderr of a failed run.
    fn failure(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.stderr
    }
}

/// Runs `coracle store` on a data directory.
async fn tool(data_dir: &Path, arguments: &[&str]) -> ToolOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.arg("store").args(arguments).arg("--data-dir").arg(data_dir);
    let ran = output(&mut command).await;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    ToolOutput { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

/// Creates a store with [`KEYS`] keys, each written in a commit of its own.
async fn fill(data_dir: &Path) -> Store {
    let store = storage::open_or_create(&Config::new(data_dir)).await.expect("a store");
    for number in 0..KEYS {
        store.put(Put::new(format!("key-{number:02}"), value(number))).await.expect("a write");
    }
    store
}

fn value(number: usize) -> String {
    format!("the value number {number:02}")
}

/// Flips a bit of the value with this number in the log.
fn damage(data_dir: &Path, number: usize) {
    let file = log_file(data_dir);
    let mut bytes = fs::read(&file).expect("a log");
    let value = value(number);
    let at = bytes.windows(value.len()).position(|window| window == value.as_bytes());
    bytes[at.expect("the value is in the log")] ^= 1;
    fs::write(&file, bytes).expect("the log is writable");
}

/// The only log segment of a small store.
fn log_file(data_dir: &Path) -> PathBuf {
    let entries = fs::read_dir(storage::directory(data_dir)).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").path());
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    names.filter(is_log).min().expect("a log")
}

/// Copies the files in their current state, as if the process had been killed.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(storage::directory(to)).expect("a directory");
    for entry in fs::read_dir(storage::directory(from)).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), storage::directory(to).join(entry.file_name())).expect("a copy");
    }
}

#[tokio::test]
async fn stopped_cluster_passes_check() {
    let dir = TestDir::new();
    assert!(Server::start(&dir, &[]).await.stop().await.success());
    // The objects of every new cluster take one key; the number of others depends on the controllers' progress.
    let text = tool(&dir.data(), &["stat"]).await.success();
    assert!(text.starts_with("engine                disk\nrevision              "), "{text}");
    let json = tool(&dir.data(), &["stat", "-o", "json"]).await.success();
    let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(figures["engine"], "disk", "{json}");
    assert!(figures["keys"].as_u64() >= Some(1), "{json}");
    let verdict = tool(&dir.data(), &["check"]).await.success();
    assert!(verdict.ends_with("\nthe store is in good order\n"), "{verdict}");
    assert!(!verdict.contains("not shut down cleanly"), "{verdict}");
}

#[tokio::test]
async fn export_can_be_imported() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    let file = dir.path().join("objects.export");
    let file = file.to_str().unwrap();
    let message = tool(&dir.data(), &["export", file]).await.success();
    assert!(message.starts_with(&format!("exported {KEYS} entries")), "{message}");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);

    let refused = tool(&dir.data(), &["export", file]).await.failure();
    assert!(refused.contains("already exists; pass --force to overwrite it"), "{refused}");
    tool(&dir.data(), &["export", "--force", file]).await.success();

    let copy = dir.path().join("copy");
    let message = tool(&copy, &["import", file]).await.success();
    assert!(message.starts_with(&format!("imported {KEYS} entries")), "{message}");
    let refused = tool(&copy, &["import", file]).await.failure();
    assert!(refused.contains(&format!("{KEYS} keys already")), "{refused}");
    let store = storage::open_existing(&Config::new(&copy)).await.unwrap();
    let entry = store.get("key-07").await.unwrap().entry.unwrap();
    assert_eq!(entry.value(), value(7));
    store.close().await.unwrap();
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "a partial file is left");
}

#[tokio::test]
async fn damage_is_found_and_repaired_by_truncation() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    damage(&dir.data(), 12);

    let message = tool(&dir.data(), &["check"]).await.failure();
    let (error, advice) = message.trim_end().split_once('\n').expect("an error and advice");
    assert!(error.starts_with("error: ") && error.contains("is damaged at offset"), "{message}");
    let data_dir = dir.data().display().to_string();
    let repair = format!("to repair: coracle store repair --data-dir {data_dir} --truncate-at ");
    let position = advice.strip_prefix(&repair).unwrap_or_else(|| panic!("{advice}"));
    let position = position.strip_suffix(" --yes").unwrap_or_else(|| panic!("{advice}"));

    let up = output(Command::new(env!("CARGO_BIN_EXE_coracle")).args([
        "up",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &data_dir,
    ]))
    .await;
    let stderr = String::from_utf8(up.stderr).unwrap();
    assert!(stderr.contains("damaged") && stderr.contains("coracle store check --data-dir"), "{stderr}");

    let refused = tool(&dir.data(), &["repair", "--truncate-at", position]).await.failure();
    assert!(refused.contains("--yes"), "{refused}");
    let message = tool(&dir.data(), &["repair", "--yes", "--truncate-at", position]).await.success();
    assert!(
        message.contains("set aside: ") && message.contains("the store now ends at revision 13"),
        "{message}"
    );
    let verdict = tool(&dir.data(), &["check"]).await.success();
    assert!(verdict.contains("\n12 keys of "), "{verdict}");
}

/// A kind of damage, and the number of keys after the repair; `None` if only a backup helps.
type Kind = (&'static str, fn(&Path), Option<usize>);

const KINDS: &[Kind] = &[
    ("a value is changed", |data| damage(data, 12), Some(12)),
    ("the log is cut off", |data| edit_log(data, |bytes| bytes.truncate(4096 + 3)), Some(0)),
    ("all of the log is zeroed", |data| edit_log(data, |bytes| bytes[4096..].fill(0)), Some(0)),
    ("the header is changed", |data| edit_log(data, |bytes| bytes[30] ^= 1), None),
    ("the log is missing", |data| fs::remove_file(log_file(data)).unwrap(), None),
    ("the recorded end is missing", |data| fs::remove_file(end_file(data)).unwrap(), Some(KEYS)),
    ("the recorded end is empty", |data| fs::write(end_file(data), "").unwrap(), Some(KEYS)),
];

fn edit_log(data_dir: &Path, edit: fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(log_file(data_dir)).unwrap();
    edit(&mut bytes);
    fs::write(log_file(data_dir), bytes).unwrap();
}

fn end_file(data_dir: &Path) -> PathBuf {
    storage::directory(data_dir).join("END")
}

#[tokio::test]
async fn check_prints_repair_command_that_succeeds() {
    for (what, harm, keys) in KINDS {
        let dir = TestDir::new();
        fill(&dir.data()).await.close().await.unwrap();
        harm(&dir.data());
        let message = tool(&dir.data(), &["check"]).await.failure();
        let Some((_, command)) = message.trim_end().split_once("to repair: coracle ") else {
            assert!(message.contains("only an earlier copy") && keys.is_none(), "{what}: {message}");
            assert!(!message.contains("coracle store repair"), "{what}: {message}");
            continue;
        };
        let words: Vec<&str> = command.split(' ').collect();
        let ran = output(Command::new(env!("CARGO_BIN_EXE_coracle")).args(words)).await;
        assert!(ran.status.success(), "{what}: {command}: {ran:?}");
        let verdict = tool(&dir.data(), &["check"]).await.success();
        assert!(verdict.ends_with("the store is in good order\n"), "{what}: {verdict}");
        let keys = keys.unwrap_or_else(|| panic!("{what}: only an earlier copy helps"));
        assert!(verdict.contains(&format!("\n{keys} keys of ")), "{what}: {verdict}");
        let text = tool(&dir.data(), &["stat"]).await.success();
        assert!(text.starts_with("engine "), "{what}: {text}");
    }
}

#[tokio::test]
async fn incomplete_last_write_is_not_damage() {
    let dir = TestDir::new();
    let store = fill(&dir.data()).await;
    let killed = dir.path().join("killed");
    copy(&dir.data(), &killed);
    store.close().await.unwrap();
    damage(&killed, KEYS - 1);
    let verdict = tool(&killed, &["check"]).await.success();
    for part in
        ["never acknowledged write", "opening the store removes it", "not shut down cleanly", "good order"]
    {
        assert!(verdict.contains(part), "{part} is not in {verdict}");
    }
    let text = tool(&killed, &["stat"]).await.success();
    assert!(text.contains(&format!("keys                  {}\n", KEYS - 1)), "{text}");
}

#[tokio::test]
async fn newer_format_version_is_rejected() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    let file = log_file(&dir.data());
    let mut bytes = fs::read(&file).unwrap();
    // The version follows the 8-byte magic number. The checksum of a later version may differ, see docs/format.md.
    bytes[8] = 99;
    bytes[44] ^= 1;
    fs::write(&file, bytes).unwrap();
    for command in ["stat", "check"] {
        let message = tool(&dir.data(), &[command]).await.failure();
        assert!(
            message.contains("format version 99") && message.contains("newer program"),
            "{command}: {message}"
        );
    }
}

#[tokio::test]
async fn missing_store_is_not_created() {
    let dir = TestDir::new();
    for arguments in [&["stat"][..], &["check"], &["export", "/coracle-no-such/file"]] {
        let message = tool(&dir.data(), arguments).await.failure();
        let store = storage::directory(&dir.data()).display().to_string();
        assert!(message.starts_with("error: ") && message.contains(&store), "{message}");
        assert!(!dir.data().exists());
    }
    let message = tool(&dir.data(), &["import", "/coracle-no-such-file"]).await.failure();
    assert!(message.contains("cannot open /coracle-no-such-file"), "{message}");
    assert!(!dir.data().exists());
}

#[tokio::test]
async fn unsupported_stores_are_rejected() {
    let dir = TestDir::new();
    let message = tool(&dir.data(), &["stat", "--store", "memory"]).await.failure();
    assert!(message.contains("the memory store has no data"), "{message}");
    let message = tool(&dir.data(), &["check", "--store", "etcd=http://127.0.0.1:1"]).await.failure();
    assert!(message.contains("etcdutl"), "{message}");
    let message = tool(&dir.data(), &["repair", "--yes", "--truncate-at", "nonsense"]).await;
    assert_eq!(message.code, Some(2), "{message:?}");
}
