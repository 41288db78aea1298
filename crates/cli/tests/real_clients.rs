//! Client libraries other people wrote, against the real binary. Each module needs the runtime of a language and the
//! libraries, named by variables; `cargo xtask test --real-clients` finds or makes them.

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

/// A variable that the runner sets.
#[expect(clippy::disallowed_methods, reason = "how the runner tells a suite what it found")]
fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set; run cargo xtask test --real-clients"))
}

/// Runs a program that uses a client library, and prints `done` unless something is wrong.
async fn check(program: &mut Command) {
    let ran = output(program).await;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n");
}
