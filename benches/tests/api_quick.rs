//! Smoke test of the API benchmark against an in-process cluster.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use coracle::{Config, Coracle};

/// Runs the benchmark; returns success, stdout and stderr.
async fn bench(kubeconfig: &Path, more: &'static [&'static str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle-bench"));
    command.arg("--kubeconfig").arg(kubeconfig).args(more);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), stdout, stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_load_runs_without_error() {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let cluster = Coracle::start(Config { listen, ..Config::new(dir.path()) }).await.unwrap();
    let kubeconfig = cluster.kubeconfig().unwrap();

    let (is_ok, table, progress) = bench(kubeconfig, &["--quick"]).await;
    assert!(is_ok, "{progress}");
    for load in [
        "Create, ",
        "GET, ",
        "Merge patch, ",
        "Server-side apply, ",
        "GET, ConfigMap, one client",
        "LIST, ",
        "Watch events ",
    ] {
        assert!(table.contains(&format!("| {load}")), "no {load:?} in {table}");
    }

    let (is_ok, table, progress) =
        bench(kubeconfig, &["--quick", "--only", "get", "--content-type", "protobuf"]).await;
    assert!(is_ok, "{progress}");
    assert!(table.contains("| GET, ") && !table.contains("| LIST, "), "{table}");

    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_server_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let cluster = Coracle::start(Config { listen, ..Config::new(dir.path()) }).await.unwrap();
    let kubeconfig = cluster.kubeconfig().unwrap().to_owned();
    cluster.shutdown().await;
    let (is_ok, table, progress) = bench(&kubeconfig, &["--quick"]).await;
    assert!(!is_ok && table.is_empty(), "{table}");
    assert!(progress.contains("error: "), "{progress}");
}
