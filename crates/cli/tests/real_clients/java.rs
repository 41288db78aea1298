//! The Java client fabric8, with its default HTTP client and the configuration it discovers.

use std::fs;

use tokio::process::Command;

use crate::dir::TestDir;
use crate::server::Server;
use crate::{check, variable};

#[tokio::test]
async fn fabric8_works_and_watches_over_websocket() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &["--log-format", "json"]).await;
    let mut java = Command::new(variable("CORACLE_TEST_JAVA"));
    java.arg("-cp").arg(variable("CORACLE_TEST_JAVA_CLASSPATH")).arg("Fabric8");
    // Neither the user's configuration nor a cache in their home directory.
    java.env("HOME", dir.path()).env("KUBECONFIG", &server.kubeconfig);
    check(&mut java).await;
    server.stop().await;
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    let is_websocket = |line: &&str| line.contains("/configmaps\"") && line.contains("\"code\":101");
    assert!(log.lines().any(|line| is_websocket(&line)), "no watch over WebSocket; see server.log");
}
