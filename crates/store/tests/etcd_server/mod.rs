//! Real etcd processes for tests: on free loopback ports, in a separate directory, killed with the test. The
//! directory with the members' logs is kept if the test fails.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coracle_store::{Watch, WatchEvent};
use tempfile::TempDir;

pub(crate) mod increments;

/// Time limit for a cluster to recover from a lost member, on a machine busy with other tests.
pub(crate) const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a member to respond, on a machine busy with other tests.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Maximum attempts with other ports: another process may take one meanwhile.
const MAX_STARTS: usize = 5;

/// Time limit of a single HTTP exchange with a member.
const HTTP_LIMIT: Duration = Duration::from_secs(5);

/// A cluster of etcd processes.
pub(crate) struct EtcdServer {
    members: Vec<Member>,
    scheme: &'static str,
    dir: TempDir,
}

struct Member {
    client: SocketAddr,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Child>,
}

impl EtcdServer {
    /// Starts a cluster of `members` members and waits until they respond.
    pub(crate) async fn start(members: usize) -> Self {
        Self::start_with(members, "http", &[]).await
    }

    /// Starts one member with TLS and client certificates.
    pub(crate) async fn start_with_tls() -> Self {
        let file = |option: &str, name: &str| format!("--{option}={}", certificate_path(name).display());
        let extra = [
            file("cert-file", "member.pem"),
            file("key-file", "member-key.pem"),
            file("trusted-ca-file", "ca.pem"),
            "--client-cert-auth".to_owned(),
        ];
        Self::start_with(1, "https", &extra).await
    }

    async fn start_with(members: usize, scheme: &'static str, extra: &[String]) -> Self {
        for _ in 0..MAX_STARTS {
            let mut server = Self::planned(members, scheme, extra);
            (0..members).for_each(|at| server.spawn(at));
            if server.all_answer().await {
                return server;
            }
        }
        panic!("no etcd cluster came up in {MAX_STARTS} attempts");
    }

    fn planned(count: usize, scheme: &'static str, extra: &[String]) -> Self {
        let dir = tempfile::Builder::new().prefix("coracle-etcd-").tempdir().unwrap();
        let ports = free_ports(2 * count);
        let (clients, peers) = ports.split_at(count);
        let initial: Vec<String> =
            peers.iter().enumerate().map(|(at, peer)| format!("m{at}=http://{peer}")).collect();
        let member = |at: usize| Member {
            client: clients[at],
            arguments: arguments(dir.path(), at, scheme, clients[at], peers[at], &initial.join(","), extra),
            log: dir.path().join(format!("m{at}.log")),
            process: None,
        };
        Self { members: (0..count).map(member).collect(), scheme, dir }
    }

    /// URLs of all members.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("{}://{}", self.scheme, member.client)).collect()
    }

    /// Kills a member, as a power failure would.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Restarts a killed member with its data, and waits for it.
    pub(crate) async fn restart(&mut self, at: usize) {
        self.spawn(at);
        wait_for("the restarted member to answer", START_LIMIT, || self.answers(at)).await;
    }

    /// Suspends a member's process: its connections stay open without responses.
    pub(crate) fn suspend(&self, at: usize) {
        let id = self.members[at].process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    }

    /// Calls a method of etcd's JSON gateway on the first member.
    pub(crate) fn call(&self, path: &str, body: &str) -> String {
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = exchange(self.members[0].client, &request).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        answer
    }

    /// Enables authentication with the user `root` and this password.
    pub(crate) fn enable_auth(&self, password: &str) {
        self.call("/v3/auth/user/add", &format!(r#"{{"name":"root","password":"{password}"}}"#));
        self.call("/v3/auth/role/add", r#"{"name":"root"}"#);
        self.call("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
        self.call("/v3/auth/enable", "{}");
    }

    fn spawn(&mut self, at: usize) {
        let member = &mut self.members[at];
        let log = File::options().create(true).append(true).open(&member.log).unwrap();
        let mut command = Command::new("etcd");
        command.args(&member.arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let process =
            command.spawn().unwrap_or_else(|error| panic!("cannot run etcd from the PATH: {error}"));
        member.process = Some(process);
    }

    /// Returns false if a process ended before all responded, for example because a port was taken.
    async fn all_answer(&mut self) -> bool {
        let mut ended = false;
        let count = self.members.len();
        wait_for("all members to answer", START_LIMIT, || {
            ended = (0..count).any(|at| self.has_ended(at));
            ended || (0..count).all(|at| self.answers(at))
        })
        .await;
        !ended
    }

    fn has_ended(&mut self, at: usize) -> bool {
        self.members[at].process.as_mut().is_none_or(|process| process.try_wait().unwrap().is_some())
    }

    fn answers(&self, at: usize) -> bool {
        let member = &self.members[at];
        if self.scheme == "https" {
            return TcpStream::connect(member.client).is_ok();
        }
        // Healthy means that a proposal was committed, so there is a leader too.
        exchange(member.client, "GET /health HTTP/1.0\r\n\r\n")
            .is_ok_and(|answer| answer.contains(r#""true""#))
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            println!("logs of etcd are in {}", self.dir.path().display());
        }
    }
}

fn arguments(
    dir: &Path,
    at: usize,
    scheme: &str,
    client: SocketAddr,
    peer: SocketAddr,
    cluster: &str,
    extra: &[String],
) -> Vec<String> {
    let mut arguments = vec![
        format!("--name=m{at}"),
        format!("--data-dir={}", dir.join(format!("m{at}")).display()),
        format!("--listen-client-urls={scheme}://{client}"),
        format!("--advertise-client-urls={scheme}://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster={cluster}"),
        format!("--initial-cluster-token={}", dir.display()),
        "--initial-cluster-state=new".to_owned(),
        "--log-level=warn".to_owned(),
        "--logger=zap".to_owned(),
    ];
    arguments.extend_from_slice(extra);
    arguments
}

/// A certificate or key for tests: a CA (`ca`), a member and a client with certificates signed by it, and a CA that
/// signed nothing (`stranger`). All are valid until 2126.
pub(crate) fn certificate(name: &str) -> Vec<u8> {
    std::fs::read(certificate_path(name)).unwrap()
}

fn certificate_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/etcd_server/certificates").join(name)
}

/// Distinct ports that are free at the moment.
pub(crate) fn free_ports(count: usize) -> Vec<SocketAddr> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, HTTP_LIMIT)?;
    stream.set_read_timeout(Some(HTTP_LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits until a condition holds.
pub(crate) async fn wait_for(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(limit, met).await.is_ok(), "waited {limit:?} in vain for {what}");
}

/// The next event of a watch that must continue.
pub(crate) async fn next(watch: &mut Watch) -> WatchEvent {
    let event = tokio::time::timeout(RECOVERY_LIMIT, watch.next()).await;
    event.expect("an event comes in time").expect("the watch continues")
}
