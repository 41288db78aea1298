//! Client libraries other people wrote, against the real binary. Needs a Python that has them
//! in `CORACLE_TEST_PYTHON`; `cargo xtask test --real-clients` makes one.

#[path = "support/dir.rs"]
mod dir;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use dir::TestDir;
use program::output;
use server::Server;
use tokio::process::Command;

/// The Python to use.
#[expect(clippy::disallowed_methods, reason = "how the runner tells a suite what it found")]
fn python() -> Command {
    Command::new(
        std::env::var_os("CORACLE_TEST_PYTHON").expect("CORACLE_TEST_PYTHON is the path of a Python"),
    )
}

/// Runs a program that does what clients do, and says `done` when all went as it should.
async fn check(program: &str) {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    let mut python = python();
    // No configuration of the user's, and no cache in their home.
    python.env("HOME", dir.path()).args(["-c", program]).arg(&server.kubeconfig);
    let ran = output(&mut python).await;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.stdout, b"done\n");
    server.stop().await;
}

#[tokio::test]
async fn the_official_python_client_works() {
    check(include_str!("real_clients/kubernetes.py")).await;
}

#[tokio::test]
async fn kr8s_works() {
    check(include_str!("real_clients/kr8s.py")).await;
}
