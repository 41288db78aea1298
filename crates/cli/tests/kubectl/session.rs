//! A server and a kubectl that connects to it.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::dir::TestDir;
use crate::server::Server;

/// Commands take seconds; the limit allows for machines under load.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Session {
    dir: TestDir,
    server: Server,
    /// False if commands run without the server's kubeconfig.
    has_kubeconfig: bool,
}

impl Session {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with additional flags.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let dir = TestDir::new();
        let server = Server::start(&dir, flags).await;
        Self { dir, server, has_kubeconfig: true }
    }

    /// Starts a server at a given address.
    pub(crate) async fn start_at(address: &str, flags: &[&str]) -> Self {
        let dir = TestDir::new();
        let server = Server::start_at(&dir, address, flags).await;
        Self { dir, server, has_kubeconfig: true }
    }

    /// Runs commands without a kubeconfig from now on.
    pub(crate) fn without_kubeconfig(self) -> Self {
        Self { has_kubeconfig: false, ..self }
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.server.url
    }

    pub(crate) async fn stop(self) {
        assert!(self.server.stop().await.success());
    }

    /// Runs a command that must succeed; returns its stdout.
    pub(crate) async fn ok(&self, line: &str) -> String {
        self.ok_with(line, "").await
    }

    /// Runs a command that must succeed, with `input` on stdin.
    pub(crate) async fn ok_with(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input).await;
        assert!(ran.status.success(), "kubectl {line}: {}", text(&ran.stderr));
        text(&ran.stdout)
    }

    /// Runs a command that must succeed; parses its stdout as JSON.
    pub(crate) async fn json(&self, line: &str) -> Value {
        let out = self.ok(&format!("{line} -o json")).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("kubectl {line}: {error}: {out}"))
    }

    /// Runs a command that must fail; returns its stderr.
    pub(crate) async fn refused(&self, line: &str) -> String {
        self.refused_with(line, "").await
    }

    /// Runs a command that must fail, with `input` on stdin.
    pub(crate) async fn refused_with(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input).await;
        assert!(!ran.status.success(), "kubectl {line} succeeded: {}", text(&ran.stdout));
        text(&ran.stderr)
    }

    /// Runs a command to its end, successful or not.
    pub(crate) async fn run(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that does not read its stdin closes the pipe; that is not a failure.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let ended = timeout(LIMIT, child.wait_with_output()).await;
        ended.unwrap_or_else(|_| panic!("kubectl {line} does not end")).expect("an output")
    }

    /// Runs a command that starts an editor; the editor is a sed script.
    pub(crate) async fn ok_edited(&self, line: &str, script: &str) -> String {
        let mut command = self.command(line);
        command.env("KUBE_EDITOR", format!("sed -i '{script}'")).stdin(Stdio::null());
        let ran = timeout(LIMIT, command.output()).await.expect("it ends").expect("kubectl starts");
        assert!(ran.status.success(), "kubectl {line}: {}", text(&ran.stderr));
        text(&ran.stdout)
    }

    /// Starts a command that runs until it is dropped; returns its lines.
    pub(crate) fn follow(&self, line: &str) -> Followed {
        let mut command = self.command(line);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("kubectl starts");
        let lines = lines(child.stdout.take().expect("a pipe"));
        Followed { child, lines }
    }

    /// Starts a command that ends when its condition is met; returns the lines of its log, which show its requests.
    pub(crate) fn follow_log(&self, line: &str) -> Followed {
        let mut command = self.command(&format!("{line} -v=6"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let lines = lines(child.stderr.take().expect("a pipe"));
        Followed { child, lines }
    }

    /// Writes a file into the directory of the test, where commands run.
    pub(crate) fn file(&self, name: &str, content: &str) {
        std::fs::write(self.dir.path().join(name), content).expect("a file");
    }

    #[expect(clippy::disallowed_methods, reason = "the runner passes paths to suites in the environment")]
    fn command(&self, line: &str) -> Command {
        let kubectl =
            std::env::var_os("CORACLE_TEST_KUBECTL").expect("CORACLE_TEST_KUBECTL is the path of a kubectl");
        let mut command = Command::new(kubectl);
        // Neither the user's configuration nor a cache in their home directory.
        command.env("HOME", self.dir.path()).env_remove("KUBECONFIG");
        if self.has_kubeconfig {
            command.env("KUBECONFIG", &self.server.kubeconfig);
        }
        command.current_dir(self.dir.path()).kill_on_drop(true);
        command.args(words(line));
        command
    }
}

/// Output lines of a running command.
type Lines = tokio::io::Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>;

fn lines(pipe: impl AsyncRead + Send + Unpin + 'static) -> Lines {
    let pipe: Box<dyn AsyncRead + Send + Unpin> = Box::new(pipe);
    BufReader::new(pipe).lines()
}

/// A running command.
pub(crate) struct Followed {
    child: Child,
    lines: Lines,
}

impl Followed {
    /// Returns the next line that contains `wanted`.
    pub(crate) async fn line_with(&mut self, wanted: &str) -> String {
        loop {
            let line = timeout(LIMIT, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no line with {wanted:?}"));
            let line = line.expect("a line of text").unwrap_or_else(|| panic!("no line with {wanted:?}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Waits for the command to end; it must succeed.
    pub(crate) async fn succeeds(mut self) {
        let mut log = Vec::new();
        while let Ok(Ok(Some(line))) = timeout(LIMIT, self.lines.next_line()).await {
            log.push(line);
        }
        let ended = timeout(LIMIT, self.child.wait()).await.expect("it ends").expect("a status");
        assert!(ended.success(), "{}", log.join("\n"));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits a command line into words; single quotes protect spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Asserts that `found` contains each of `wanted`.
#[track_caller]
pub(crate) fn has(found: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(found.contains(wanted), "{wanted:?} is not in:\n{found}");
    }
}
