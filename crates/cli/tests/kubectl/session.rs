//! A server, and a kubectl that talks to it.

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::dir::TestDir;
use crate::server::Server;

/// No command here takes more than seconds; this is for machines under load.
const LIMIT: Duration = Duration::from_secs(120);

/// A server, and a kubectl that talks to it.
pub(crate) struct Session {
    dir: TestDir,
    server: Server,
    /// Whether commands get the kubeconfig of the server.
    has_kubeconfig: bool,
}

impl Session {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with further flags of the server.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let dir = TestDir::new();
        let server = Server::start(&dir, flags).await;
        Self { dir, server, has_kubeconfig: true }
    }

    /// The same, at a given address.
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

    /// Runs a command that must succeed. Returns what it prints.
    pub(crate) async fn ok(&self, line: &str) -> String {
        self.ok_with(line, "").await
    }

    /// The same, with something to read.
    pub(crate) async fn ok_with(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input).await;
        assert!(ran.status.success(), "kubectl {line}: {}", text(&ran.stderr));
        text(&ran.stdout)
    }

    /// What a command that must succeed prints as JSON.
    pub(crate) async fn json(&self, line: &str) -> Value {
        let out = self.ok(&format!("{line} -o json")).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("kubectl {line}: {error}: {out}"))
    }

    /// Runs a command that must fail. Returns what it complains of.
    pub(crate) async fn refused(&self, line: &str) -> String {
        self.refused_with(line, "").await
    }

    /// The same, with something to read.
    pub(crate) async fn refused_with(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input).await;
        assert!(!ran.status.success(), "kubectl {line} succeeded: {}", text(&ran.stdout));
        text(&ran.stderr)
    }

    /// Runs a command to its end, however that is.
    pub(crate) async fn run(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that does not read what it is given is no failure here.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let ended = timeout(LIMIT, child.wait_with_output()).await;
        ended.unwrap_or_else(|_| panic!("kubectl {line} does not end")).expect("an output")
    }

    /// Runs a command that starts an editor, which changes the text by a script of sed.
    pub(crate) async fn ok_edited(&self, line: &str, script: &str) -> String {
        let mut command = self.command(line);
        command.env("KUBE_EDITOR", format!("sed -i '{script}'")).stdin(Stdio::null());
        let ran = timeout(LIMIT, command.output()).await.expect("it ends").expect("kubectl starts");
        assert!(ran.status.success(), "kubectl {line}: {}", text(&ran.stderr));
        text(&ran.stdout)
    }

    /// Starts a command that goes on until it is dropped. Returns its lines.
    pub(crate) fn follow(&self, line: &str) -> Followed {
        let mut command = self.command(line);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("kubectl starts");
        let lines = lines(child.stdout.take().expect("a pipe"));
        Followed { child, lines }
    }

    /// Starts a command that goes on until what it waits for has happened. Returns the lines of
    /// its log, which tell of its requests.
    pub(crate) fn follow_log(&self, line: &str) -> Followed {
        let mut command = self.command(&format!("{line} -v=6"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let lines = lines(child.stderr.take().expect("a pipe"));
        Followed { child, lines }
    }

    /// A file in the directory of the test, where commands run.
    pub(crate) fn file(&self, name: &str, content: &str) {
        std::fs::write(self.dir.path().join(name), content).expect("a file");
    }

    #[expect(clippy::disallowed_methods, reason = "how the runner tells a suite what it found")]
    fn command(&self, line: &str) -> Command {
        let kubectl =
            std::env::var_os("CORACLE_TEST_KUBECTL").expect("CORACLE_TEST_KUBECTL is the path of a kubectl");
        let mut command = Command::new(kubectl);
        // No configuration of the user's, and no cache in their home.
        command.env("HOME", self.dir.path()).env_remove("KUBECONFIG");
        if self.has_kubeconfig {
            command.env("KUBECONFIG", &self.server.kubeconfig);
        }
        command.current_dir(self.dir.path()).kill_on_drop(true);
        command.args(words(line));
        command
    }
}

/// What a command that goes on prints.
type Lines = tokio::io::Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>;

fn lines(pipe: impl AsyncRead + Send + Unpin + 'static) -> Lines {
    let pipe: Box<dyn AsyncRead + Send + Unpin> = Box::new(pipe);
    BufReader::new(pipe).lines()
}

/// A command that goes on.
pub(crate) struct Followed {
    child: Child,
    lines: Lines,
}

impl Followed {
    /// The next line that holds this text.
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

    /// Waits for its end, which must be a good one.
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

/// The words of a command line; single quotes keep spaces.
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

/// Checks that a text has all of these in it.
#[track_caller]
pub(crate) fn has(found: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(found.contains(wanted), "{wanted:?} is not in:\n{found}");
    }
}
