//! Python clients.

use tokio::process::Command;

use crate::dir::TestDir;
use crate::server::Server;
use crate::{check, variable};

/// Runs a program with the kubeconfig of a new server.
async fn check_program(program: &str) {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let mut python = Command::new(variable("CORACLE_TEST_PYTHON"));
    // Neither the user's configuration nor a cache in their home directory.
    python.env("HOME", dir.path()).args(["-c", program]).arg(&server.kubeconfig);
    check(&mut python).await;
    server.stop().await;
}

#[tokio::test]
async fn official_client_works() {
    check_program(include_str!("kubernetes.py")).await;
}

#[tokio::test]
async fn kr8s_works() {
    check_program(include_str!("kr8s.py")).await;
}
