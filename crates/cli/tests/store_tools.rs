//! `coracle store` as a user meets it: on stores that are fine, damaged, or not there.

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

/// How many keys the stores of these tests have.
const KEYS: usize = 20;

/// What a tool said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    /// The standard output of a success.
    fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// The standard error of a failure.
    fn failure(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.stderr
    }
}

/// Runs `coracle store` on a data directory.
async fn tool(data_dir: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.arg("store").args(arguments).arg("--data-dir").arg(data_dir);
    let ran = output(&mut command).await;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Said { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

/// A store with [`KEYS`] keys, each written on its own.
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

/// Changes one byte of the value with this number, wherever it lies in the log.
fn damage(data_dir: &Path, number: usize) {
    let file = log_file(data_dir);
    let mut bytes = fs::read(&file).expect("a log");
    let value = value(number);
    let at = bytes.windows(value.len()).position(|window| window == value.as_bytes());
    bytes[at.expect("the value is in the log")] ^= 1;
    fs::write(&file, bytes).expect("the log is writable");
}

/// The only segment of a small store.
fn log_file(data_dir: &Path) -> PathBuf {
    let entries = fs::read_dir(storage::directory(data_dir)).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").path());
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    names.filter(is_log).min().expect("a log")
}

/// A copy of the files as they are now, as if the process had been killed.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(storage::directory(to)).expect("a directory");
    for entry in fs::read_dir(storage::directory(from)).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), storage::directory(to).join(entry.file_name())).expect("a copy");
    }
}

#[tokio::test]
async fn a_cluster_that_was_stopped_is_in_good_order() {
    let dir = TestDir::new();
    assert!(Server::start(&dir, &[]).await.stop().await.success());
    // What every cluster has takes one key; how far the controllers came is up to them.
    let text = tool(&dir.data(), &["stat"]).await.success();
    assert!(text.starts_with("engine                disk\nrevision              "), "{text}");
    let json = tool(&dir.data(), &["stat", "-o", "json"]).await.success();
    let figures: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(figures["engine"], "disk", "{json}");
    assert!(figures["keys"].as_u64() >= Some(1), "{json}");
    let verdict = tool(&dir.data(), &["check"]).await.success();
    assert!(verdict.ends_with("\nthe store is in good order\n"), "{verdict}");
    assert!(!verdict.contains("not closed"), "{verdict}");
}

#[tokio::test]
async fn an_export_can_be_imported() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    let file = dir.path().join("objects.export");
    let file = file.to_str().unwrap();
    let said = tool(&dir.data(), &["export", file]).await.success();
    assert!(said.starts_with(&format!("exported {KEYS} entries")), "{said}");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);

    let refused = tool(&dir.data(), &["export", file]).await.failure();
    assert!(refused.contains("exists already; replace it by --force"), "{refused}");
    tool(&dir.data(), &["export", "--force", file]).await.success();

    let copy = dir.path().join("copy");
    let said = tool(&copy, &["import", file]).await.success();
    assert!(said.starts_with(&format!("imported {KEYS} entries")), "{said}");
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
async fn damage_is_found_and_can_be_given_up() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    damage(&dir.data(), 12);

    let said = tool(&dir.data(), &["check"]).await.failure();
    let (error, advice) = said.trim_end().split_once('\n').expect("an error and advice");
    assert!(error.starts_with("error: ") && error.contains("is damaged at offset"), "{said}");
    let data_dir = dir.data().display().to_string();
    let repair = format!("the way out: coracle store repair --data-dir {data_dir} --truncate-at ");
    let place = advice.strip_prefix(&repair).unwrap_or_else(|| panic!("{advice}"));
    let place = place.strip_suffix(" --yes").unwrap_or_else(|| panic!("{advice}"));

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

    let refused = tool(&dir.data(), &["repair", "--truncate-at", place]).await.failure();
    assert!(refused.contains("--yes"), "{refused}");
    let said = tool(&dir.data(), &["repair", "--yes", "--truncate-at", place]).await.success();
    assert!(said.contains("set aside: ") && said.contains("the store now ends at revision 13"), "{said}");
    let verdict = tool(&dir.data(), &["check"]).await.success();
    assert!(verdict.contains("\n12 keys of "), "{verdict}");
}

/// Damage done to the files of a store, and what is left of its keys after the way out; `None`
/// if only an earlier copy helps.
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
async fn check_prints_one_way_out_and_that_command_leads_to_a_good_store() {
    for (what, harm, keys) in KINDS {
        let dir = TestDir::new();
        fill(&dir.data()).await.close().await.unwrap();
        harm(&dir.data());
        let said = tool(&dir.data(), &["check"]).await.failure();
        let Some((_, command)) = said.trim_end().split_once("the way out: coracle ") else {
            assert!(said.contains("only an earlier copy") && keys.is_none(), "{what}: {said}");
            assert!(!said.contains("coracle store repair"), "{what}: {said}");
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
async fn a_write_that_was_cut_short_is_no_damage() {
    let dir = TestDir::new();
    let store = fill(&dir.data()).await;
    let killed = dir.path().join("killed");
    copy(&dir.data(), &killed);
    store.close().await.unwrap();
    damage(&killed, KEYS - 1);
    let verdict = tool(&killed, &["check"]).await.success();
    for part in
        ["cut short and never acknowledged", "opening the store removes it", "not closed", "good order"]
    {
        assert!(verdict.contains(part), "{part} is not in {verdict}");
    }
    let text = tool(&killed, &["stat"]).await.success();
    assert!(text.contains(&format!("keys                  {}\n", KEYS - 1)), "{text}");
}

#[tokio::test]
async fn a_format_of_the_future_is_refused() {
    let dir = TestDir::new();
    fill(&dir.data()).await.close().await.unwrap();
    let file = log_file(&dir.data());
    let mut bytes = fs::read(&file).unwrap();
    // The version follows the 8 bytes that say what the file is, and the checksum of a later
    // version may be another one; see docs/format.md.
    bytes[8] = 99;
    bytes[44] ^= 1;
    fs::write(&file, bytes).unwrap();
    for command in ["stat", "check"] {
        let said = tool(&dir.data(), &[command]).await.failure();
        assert!(said.contains("format version 99") && said.contains("newer program"), "{command}: {said}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_made() {
    let dir = TestDir::new();
    for arguments in [&["stat"][..], &["check"], &["export", "/coracle-no-such/file"]] {
        let said = tool(&dir.data(), arguments).await.failure();
        let store = storage::directory(&dir.data()).display().to_string();
        assert!(said.starts_with("error: ") && said.contains(&store), "{said}");
        assert!(!dir.data().exists());
    }
    let said = tool(&dir.data(), &["import", "/coracle-no-such-file"]).await.failure();
    assert!(said.contains("cannot open /coracle-no-such-file"), "{said}");
    assert!(!dir.data().exists());
}

#[tokio::test]
async fn stores_the_tools_are_not_for_are_refused() {
    let dir = TestDir::new();
    let said = tool(&dir.data(), &["stat", "--store", "memory"]).await.failure();
    assert!(said.contains("the memory store keeps nothing"), "{said}");
    let said = tool(&dir.data(), &["check", "--store", "etcd=http://127.0.0.1:1"]).await.failure();
    assert!(said.contains("etcdutl"), "{said}");
    let said = tool(&dir.data(), &["repair", "--yes", "--truncate-at", "nonsense"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
}
