//! `coracle up` as a user meets it: the real binary, its output, its signals, its errors.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/dir.rs"]
mod dir;
#[path = "support/https.rs"]
mod https;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;
#[path = "support/tls_config.rs"]
mod tls_config;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use dir::TestDir;
use https::{Client, body};
use program::output;
use server::Server;
use tokio::process::Command;

/// The body of the answer to a GET that must succeed.
async fn get(server: &Server, path: &str) -> String {
    let trusts = server.kubeconfig.parent().expect("a data directory");
    body(Client { trusts, expects: "localhost", shows: None }.get(server, path).await)
}

/// Runs `coracle` with arguments with which it must end by itself.
async fn coracle(arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_coracle")).args(arguments)).await
}

/// Asserts that `coracle` fails with one line that contains all of `parts`.
async fn check_error(arguments: &[&str], code: i32, parts: &[&str]) {
    let ran = coracle(arguments).await;
    assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{ran:?}");
    for part in parts {
        assert!(errors[0].contains(part), "{part} is not in {}", errors[0]);
    }
}

#[tokio::test]
async fn it_starts_answers_and_stops() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    assert_eq!(get(&server, "/livez").await, "ok");
    assert_eq!(get(&server, "/healthz").await, "ok");
    let verbose = get(&server, "/readyz?verbose").await;
    assert_eq!(verbose, "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n");
    assert!(server.stop().await.success());
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("shut down in order"), "{log}");
}

#[tokio::test]
async fn it_starts_again_after_a_kill() {
    let dir = TestDir::new();
    for _ in 0..3 {
        let mut server = Server::start(&dir, &[]).await;
        assert_eq!(get(&server, "/readyz").await, "ok");
        server.child.kill().await.unwrap();
    }
    assert!(Server::start(&dir, &[]).await.stop().await.success());
}

#[tokio::test]
async fn a_cluster_in_memory_leaves_only_its_certificates() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &["--store", "memory"]).await;
    assert_eq!(get(&server, "/readyz").await, "ok");
    assert!(server.stop().await.success());
    assert_eq!(names(&dir.data()), ["admin.kubeconfig", "coracle.lock", "pki"]);
}

/// The sorted names of the entries of a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn second_server_in_a_directory_is_rejected_whatever_the_stores_are() {
    for (first, second) in [
        ("disk", "disk"),
        ("disk", "memory"),
        ("memory", "memory"),
        ("memory", "disk"),
        // No etcd listens at port 1: the directory is locked before a store is opened.
        ("memory", "etcd=http://127.0.0.1:1"),
    ] {
        let dir = TestDir::new();
        let server = Server::start(&dir, &["--store", first]).await;
        let kubeconfig = fs::read_to_string(&server.kubeconfig).unwrap();
        let data_dir = dir.data();
        let data_dir = data_dir.to_str().unwrap();
        let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", data_dir, "--store", second];
        let process = format!("another coracle (pid {}) is running there", server.pid().as_raw_pid());
        check_error(&up, 1, &[data_dir, "is in use", &process, "--data-dir"]).await;
        assert_eq!(fs::read_to_string(&server.kubeconfig).unwrap(), kubeconfig, "{first}, {second}");
        assert_eq!(get(&server, "/readyz").await, "ok");
        assert!(server.stop().await.success());
        assert_eq!(dir.data().join("store").exists(), first == "disk", "{first}, {second}");
    }
}

#[tokio::test]
async fn directory_is_free_after_a_kill_of_a_server_in_memory() {
    let dir = TestDir::new();
    for _ in 0..2 {
        let mut server = Server::start(&dir, &["--store", "memory"]).await;
        server.child.kill().await.unwrap();
    }
    assert!(Server::start(&dir, &["--store", "disk"]).await.stop().await.success());
    let mode = fs::metadata(dir.data().join("coracle.lock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn tools_beside_a_running_server_work_and_store_tools_are_rejected() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let data_dir = dir.data();
    let data_dir = data_dir.to_str().unwrap();
    for tool in
        [vec!["certs", "list"], vec!["certs", "rotate"], vec!["kubeconfig", "create", "--user", "jane"]]
    {
        let ran = coracle(&[&tool[..], &["--data-dir", data_dir]].concat()).await;
        assert!(ran.status.success(), "{tool:?}: {ran:?}");
    }
    for tool in ["stat", "check"] {
        check_error(&["store", tool, "--data-dir", data_dir], 1, &["in use"]).await;
    }
    assert_eq!(get(&server, "/readyz").await, "ok");
    assert!(server.stop().await.success());
    // The lock of the server is released: the tools run now.
    assert!(coracle(&["store", "check", "--data-dir", data_dir]).await.status.success());
}

/// `coracle up --store memory` without a data directory, with temporary files and the home in the directory of the test.
async fn up_in_memory(dir: &TestDir) -> Server {
    let log = fs::File::options().append(true).create(true).open(dir.path().join("server.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["up", "--listen", "127.0.0.1:0", "--store", "memory"]).stderr(log);
    command.env("TMPDIR", dir.path().join("tmp")).env("HOME", dir.path()).env_remove("XDG_DATA_HOME");
    Server::run_anywhere(command).await
}

#[tokio::test]
async fn servers_in_memory_remove_their_temporary_directories() {
    let dir = TestDir::new();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let servers = [up_in_memory(&dir).await, up_in_memory(&dir).await];
    assert_ne!(servers[0].kubeconfig, servers[1].kubeconfig);
    for server in servers {
        let data_dir = server.kubeconfig.parent().unwrap();
        assert_eq!(data_dir.parent(), Some(temporary.as_path()), "{data_dir:?}");
        assert_eq!(fs::metadata(data_dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(get(&server, "/readyz").await, "ok");
        let url = format!("server: {}", server.url);
        assert!(
            fs::read_to_string(&server.kubeconfig).unwrap().contains(&url),
            "not the kubeconfig of {url}"
        );
        assert!(server.terminate().await.success());
    }
    assert_eq!(names(&temporary), [""; 0]);
    assert_eq!(names(dir.path()), ["server.log", "tmp"], "something was written to the home");
}

#[tokio::test]
async fn temporary_directory_is_removed_when_the_server_cannot_start() {
    let dir = TestDir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["up", "--listen", &taken.local_addr().unwrap().to_string(), "--store", "memory"]);
    let ran = output(command.env("TMPDIR", dir.path())).await;
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn an_address_in_use_is_refused() {
    let dir = TestDir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data_dir = dir.data();
    let up = ["up", "--listen", &address, "--data-dir", data_dir.to_str().unwrap()];
    check_error(&up, 1, &["cannot listen on", &address, "in use"]).await;
    assert!(!data_dir.exists());
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_refused() {
    // A file in its place, because tests may run as root, who is denied nothing.
    let dir = TestDir::new();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for data_dir in [file.clone(), file.join("below")] {
        let data_dir = data_dir.to_str().unwrap();
        for store in ["disk", "memory"] {
            let up = ["up", "--listen", "127.0.0.1:0", "--store", store, "--data-dir", data_dir];
            check_error(&up, 1, &["cannot create", data_dir]).await;
        }
    }
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_refused() {
    check_error(&["up", "--unknown"], 2, &["--unknown"]).await;
    check_error(&["up", "--listen", "nowhere"], 2, &["nowhere", "--listen"]).await;
    check_error(&["up", "--tls-san", "a b"], 2, &["a b", "--tls-san", "DNS name"]).await;
    let expected = r#"error: invalid --store "foo": expected disk, memory or etcd=URL[,URL...]"#;
    check_error(&["up", "--store", "foo"], 2, &[expected]).await;
    check_error(&["up", "--etcd-ca", "/ca"], 2, &["--etcd-ca needs --store etcd=URL"]).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn an_etcd_that_cannot_be_reached_is_reported() {
    check_error(&["up", "--store", "etcd=localhost:2379"], 2, &["invalid --store", "localhost:2379"]).await;
    // Bound and closed again: nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let store = format!("etcd=http://{free}");
    check_error(&["up", "--listen", "127.0.0.1:0", "--store", &store], 1, &["etcd", &free.to_string()]).await;
    let tls = ["--etcd-ca", "/coracle-no-such-file"];
    let up = ["up", "--listen", "127.0.0.1:0", "--store", "etcd=https://127.0.0.1:1", tls[0], tls[1]];
    check_error(&up, 1, &["cannot read /coracle-no-such-file"]).await;
}

#[tokio::test]
async fn the_version_is_told() {
    for arguments in [["version"], ["--version"]] {
        let ran = coracle(&arguments).await;
        assert_eq!(ran.stdout, concat!("coracle ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    }
}
