//! A running `coracle up`.

use std::fs::File;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::dir::TestDir;

/// Starting and stopping take milliseconds; the limit allows for machines under load.
const LIMIT: Duration = Duration::from_secs(60);

/// A running `coracle up`, killed when dropped. Its log is `server.log` in the test's directory.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// Such as `https://127.0.0.1:34567`.
    pub(crate) url: String,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// Lines of the announcement after the first two.
    pub(crate) announced: Vec<String>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn start(dir: &TestDir, more: &[&str]) -> Self {
        Self::start_at(dir, "127.0.0.1:0", more).await
    }

    /// Starts a server at a given address, with the log level trace.
    pub(crate) async fn start_at(dir: &TestDir, address: &str, more: &[&str]) -> Self {
        let log = File::create(dir.path().join("server.log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
        command.args(["up", "--listen", address, "--data-dir"]).arg(dir.data()).args(more);
        command.env("CORACLE_LOG", "trace").stderr(log);
        Self::run(dir, command).await
    }

    /// Runs a command that starts a server in the directory, and waits until the server is ready.
    pub(crate) async fn run(dir: &TestDir, command: Command) -> Self {
        let server = Self::run_anywhere(command).await;
        assert_eq!(server.kubeconfig, dir.data().join("admin.kubeconfig"));
        server
    }

    /// Runs a command that starts a server in any directory, and waits until the server is ready.
    pub(crate) async fn run_anywhere(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let ready = next_line(&mut lines).await.expect("a line; see server.log");
        let url = url_of(&ready).unwrap_or_else(|| panic!("not a ready line: {ready}"));
        let export = next_line(&mut lines).await.expect("a second line");
        let kubeconfig = export.strip_prefix("export KUBECONFIG=").map(PathBuf::from);
        let kubeconfig = kubeconfig.unwrap_or_else(|| panic!("names no kubeconfig: {export}"));
        let mut announced = Vec::new();
        while announced.last().is_none_or(|line: &String| !line.starts_with("stop: ")) {
            announced.push(next_line(&mut lines).await.expect("a line"));
        }
        Self { child, url, kubeconfig, announced, lines }
    }

    pub(crate) fn pid(&self) -> Pid {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.expect("it runs")
    }

    /// Stops the server with SIGTERM and returns its exit status. The kubeconfig must be kept for the next start.
    pub(crate) async fn stop(self) -> ExitStatus {
        let kubeconfig = self.kubeconfig.clone();
        let status = self.terminate().await;
        assert!(kubeconfig.is_file());
        status
    }

    /// Stops the server with SIGTERM and returns its exit status. The server must not have written more to stdout.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).expect("a signal is sent");
        let ended = timeout(LIMIT, self.child.wait()).await;
        let status = ended
            .unwrap_or_else(|_| panic!("{} does not end: {:?}", self.url, self.announced))
            .expect("a status");
        assert_eq!(next_line(&mut self.lines).await, None);
        status
    }
}

async fn next_line(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    timeout(LIMIT, lines.next_line()).await.expect("a line in time").expect("a line of text")
}

/// Parses `ready in 12 ms at https://127.0.0.1:34567`.
fn url_of(line: &str) -> Option<String> {
    let (time, url) = line.strip_prefix("ready in ")?.split_once(" ms at ")?;
    time.parse::<u64>().ok()?;
    url.starts_with("https://127.0.0.1:").then(|| url.to_owned())
}
