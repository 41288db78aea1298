//! kubectl against the real binary. Needs the path of a kubectl in `CORACLE_TEST_KUBECTL`;
//! `cargo xtask test` finds one.

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

/// The kubectl to use.
#[expect(clippy::disallowed_methods, reason = "how the runner tells a suite what it found")]
fn kubectl() -> Command {
    Command::new(
        std::env::var_os("CORACLE_TEST_KUBECTL").expect("CORACLE_TEST_KUBECTL is the path of a kubectl"),
    )
}

/// What kubectl prints for a path of the server.
async fn get_raw(server: &Server, dir: &TestDir, path: &str) -> String {
    let mut kubectl = kubectl();
    // No configuration of the user's, and no cache in their home.
    kubectl.env("HOME", dir.path()).env("KUBECONFIG", &server.kubeconfig);
    kubectl.args(["get", "--raw", path]);
    let ran = output(&mut kubectl).await;
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).expect("text")
}

#[tokio::test]
async fn kubectl_reads_the_health_checks() {
    let dir = TestDir::new();
    let server = Server::start(&dir, &[]).await;
    assert_eq!(get_raw(&server, &dir, "/readyz").await, "ok");
    let verbose = get_raw(&server, &dir, "/readyz?verbose").await;
    for line in ["[+]ping ok", "[+]store ok", "[+]shutdown ok", "readyz check passed"] {
        assert!(verbose.lines().any(|found| found == line), "{line} is not in {verbose}");
    }
    server.stop().await;
}
