//! The log of `coracle up`: levels, formats, one line for each request, and SIGHUP.

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

use dir::TestDir;
use https::{Client, body};
use program::output;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use server::Server;
use tokio::process::Command;

/// Starts a server with these flags, and without CORACLE_LOG.
async fn start(dir: &TestDir, flags: &[&str]) -> Server {
    let log = fs::File::create(dir.path().join("server.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.data()).args(flags);
    command.env_remove("CORACLE_LOG").stderr(log);
    Server::run(dir, command).await
}

fn log(dir: &TestDir) -> String {
    fs::read_to_string(dir.path().join("server.log")).unwrap()
}

async fn get_with_token(dir: &TestDir, server: &Server, path: &str) -> String {
    let data = dir.data();
    let client = Client { trusts: &data, expects: "localhost", shows: None };
    client.get_with(server, path, "Authorization: Bearer secret-token\r\n").await.unwrap()
}

#[tokio::test]
async fn request_is_logged_at_debug_level_without_token_and_query() {
    let dir = TestDir::new();
    let tokens = dir.path().join("tokens.csv");
    fs::write(&tokens, "secret-token,jane,1,system:masters\n").unwrap();
    let flags =
        ["--log-level", "debug", "--log-format", "json", "--token-auth-file", tokens.to_str().unwrap()];
    let server = start(&dir, &flags).await;
    let answer = get_with_token(&dir, &server, "/api/v1/namespaces/default/pods?labelSelector=hidden").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(server.stop().await.success());
    let log = log(&dir);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = "/api/v1/namespaces/default/pods";
    let requests: Vec<&Value> =
        lines.iter().filter(|line| line["path"] == path && line["user"] == "jane").collect();
    assert_eq!(requests.len(), 1, "{log}");
    let request = requests[0];
    assert_eq!(
        (&request["level"], &request["method"], &request["code"]),
        (&"DEBUG".into(), &"GET".into(), &200.into())
    );
    assert!(request["latency_ms"].as_f64().is_some_and(|latency| latency > 0.0), "{request}");
    assert!(!log.contains("secret-token") && !log.contains("hidden"), "{log}");
    let is_own = |line: &&Value| line["target"].as_str().is_some_and(|target| target.starts_with("coracle"));
    let others: Vec<&Value> = lines.iter().filter(|line| line["level"] == "DEBUG" && !is_own(line)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn request_is_not_logged_by_default() {
    let dir = TestDir::new();
    let server = start(&dir, &[]).await;
    get_with_token(&dir, &server, "/api/v1/pods").await;
    assert!(server.stop().await.success());
    let log = log(&dir);
    assert!(log.contains("shutdown complete") && !log.contains("/api/v1/pods"), "{log}");
}

#[tokio::test]
async fn hangup_does_not_stop_the_server() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    kill_process(server.pid(), Signal::HUP).unwrap();
    let data = dir.data();
    let client = Client { trusts: &data, expects: "localhost", shows: None };
    assert_eq!(body(client.get(&server, "/readyz").await), "ok");
    assert!(server.stop().await.success());
    let log = log(&dir);
    assert!(log.contains("ignoring SIGHUP") && log.contains("shutdown complete"), "{log}");
}

#[tokio::test]
async fn invalid_filter_is_rejected_wherever_it_comes_from() {
    let dir = TestDir::new();
    for (flags, variable, source) in [
        (&["--log-level", "verbose-please"][..], "", "--log-level"),
        (&[], "verbose-please", "CORACLE_LOG"),
        (&["--log-level", "info,coracle_store=loud"], "info", "--log-level"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.data()).args(flags);
        let ran = output(command.env("CORACLE_LOG", variable)).await;
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(stderr.starts_with(&format!("error: invalid {source} ")), "{stderr}");
        assert!(stderr.contains("expected a level"), "{stderr}");
    }
    assert!(!dir.data().exists());
}
