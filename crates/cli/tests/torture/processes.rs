//! The server and etcd processes of a run. Both are killed when dropped.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use coracle_base::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// Starts and stops take milliseconds; the limit allows for machines under load.
const LIMIT: Duration = Duration::from_secs(60);

/// How often etcd is polled while it starts.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Ports outside of the ephemeral range: an outgoing connection could otherwise take the server's port between two
/// starts.
const PORTS: (u16, u16) = (20_000, 30_000);

/// A `coracle up` that may not be ready yet.
pub(crate) struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a server. Its log is appended to `server.log` beside the data directory.
    pub(crate) fn spawn(data_dir: &Path, store: &str, port: u16, has_controllers: bool) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
        command.args(["up", "--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--store", store, "--data-dir"]).arg(data_dir);
        if !has_controllers {
            command.args(["--disable-controller-manager", "--disable-scheduler"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log(data_dir, "server.log")?);
        let mut child = command.kill_on_drop(true).spawn().context("cannot start coracle")?;
        let lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        Ok(Self { child, lines })
    }

    /// Waits until the server is ready; returns its address.
    pub(crate) async fn ready(&mut self) -> Result<SocketAddr> {
        let line = timeout(LIMIT, self.lines.next_line()).await.context("not ready in time")??;
        let Some(line) = line else {
            let status = timeout(LIMIT, self.child.wait()).await.context("silent and alive")??;
            bail!("it exited before it was ready: {status}");
        };
        let url = line.rsplit(' ').next().unwrap_or_default();
        let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
        address.with_context(|| format!("not a ready line: {line}"))
    }

    /// Kills the server with SIGKILL; fails if it has already exited.
    pub(crate) async fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("it exited by itself: {status}");
        }
        Ok(self.child.kill().await?)
    }

    /// Stops the server with SIGTERM; returns the exit status.
    pub(crate) async fn terminate(mut self) -> Result<ExitStatus> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.context("it exited by itself")?, Signal::TERM)?;
        Ok(timeout(LIMIT, self.child.wait()).await.context("SIGTERM does not end it")??)
    }
}

/// Runs `coracle store check`, which must succeed.
pub(crate) async fn check_store(data_dir: &Path) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["store", "check", "--data-dir"]).arg(data_dir).stdin(Stdio::null()).kill_on_drop(true);
    let ran = timeout(LIMIT, command.output()).await.context("coracle store check does not end")??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    Ok(())
}

/// A single etcd member on loopback; it keeps its ports and its directory over restarts.
pub(crate) struct Etcd {
    program: PathBuf,
    dir: PathBuf,
    ports: [u16; 2],
    child: Option<Child>,
}

impl Etcd {
    pub(crate) fn new(program: &Path, dir: &Path, rng: &mut Rng) -> Result<Self> {
        let client = free_port(rng, None)?;
        let ports = [client, free_port(rng, Some(client))?];
        Ok(Self { program: program.to_owned(), dir: dir.to_owned(), ports, child: None })
    }

    /// Its URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Starts etcd and waits until it is healthy.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(&self.dir);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        let log = log(&self.dir, "etcd.log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let spawned = command.spawn();
        self.child = Some(spawned.with_context(|| format!("cannot start {}", self.program.display()))?);
        timeout(LIMIT, self.healthy()).await.context("etcd is not healthy in time")?
    }

    /// Kills etcd with SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        match self.child.take() {
            Some(mut child) => Ok(child.kill().await?),
            None => Ok(()),
        }
    }

    async fn healthy(&mut self) -> Result<()> {
        while !is_healthy(self.ports[0]).await.unwrap_or(false) {
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("etcd exited: {status}; see etcd.log");
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

async fn is_healthy(port: u16) -> Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.contains(r#""health":"true""#))
}

/// Returns a free port other than `taken`.
pub(crate) fn free_port(rng: &mut Rng, taken: Option<u16>) -> Result<u16> {
    let is_free =
        |port: &u16| Some(*port) != taken && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let candidates = std::iter::repeat_with(|| rng.below(u64::from(PORTS.1 - PORTS.0)));
    let ports =
        candidates.take(usize::from(PORTS.1 - PORTS.0)).filter_map(|offset| u16::try_from(offset).ok());
    ports.map(|offset| PORTS.0 + offset).find(is_free).context("no free port")
}

/// Opens a log file beside a directory for appending.
fn log(dir: &Path, name: &str) -> Result<File> {
    let path = dir.with_file_name(name);
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}
