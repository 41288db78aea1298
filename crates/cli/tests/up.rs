//! `coracle up` as a user meets it: the real binary, its output, its signals, its errors.

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
    let mut left: Vec<_> =
        fs::read_dir(dir.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["admin.kubeconfig", "pki"]);
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let data_dir = dir.data();
    let data_dir = data_dir.to_str().unwrap();
    let up = ["up", "--listen", "127.0.0.1:0", "--data-dir", data_dir];
    check_error(&up, 1, &[data_dir, "in use by another process"]).await;
    check_error(&["store", "stat", "--data-dir", data_dir], 1, &["in use"]).await;
    assert_eq!(get(&server, "/readyz").await, "ok");
    assert!(server.stop().await.success());
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
