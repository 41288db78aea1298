//! Third-party client libraries against the real binary. Each module needs a language runtime and libraries, named by
//! environment variables; `cargo xtask test --real-clients` finds or installs them.

#[path = "support/dir.rs"]
mod dir;
#[path = "real_clients/java.rs"]
mod java;
#[path = "support/program.rs"]
mod program;
#[path = "real_clients/python.rs"]
mod python;
#[path = "support/server.rs"]
mod server;

use std::ffi::OsString;

use program::output;
use tokio::process::Command;

/// An environment variable that the runner sets.
#[expect(clippy::disallowed_methods, reason = "the runner passes paths to suites in the environment")]
fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set; run cargo xtask test --real-clients"))
}

/// Runs a program that uses a client library; it prints `done` if all of its checks pass.
async fn check(program: &mut Command) {
    let ran = output(program).await;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n");
}
