//! Runs programs to completion.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Programs take seconds; the limit allows for machines under load.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a program to completion, without stdin.
pub(crate) async fn output(command: &mut Command) -> Output {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    timeout(LIMIT, running).await.expect("the program ends in time").expect("the program starts")
}
