//! Programs that a test runs to their end.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// No program here takes more than seconds; this is for machines under load.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a program to its end, without anything to read.
pub(crate) async fn output(command: &mut Command) -> Output {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    timeout(LIMIT, running).await.expect("the program ends in time").expect("the program starts")
}
