//! Starts etcd for comparisons.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::measure::start;

/// Maximum time for etcd to start, and the polling interval.
const START_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Ports outside of the ephemeral range.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// A member of an etcd cluster, possibly the only one.
#[derive(Debug)]
pub struct Etcd {
    process: Child,
    /// Its client URL.
    pub endpoint: String,
}

/// Ports of a member before it starts.
struct MemberPorts {
    name: String,
    client: u16,
    peer: String,
}

impl Etcd {
    /// Starts a single member with its data in `dir`; `None` if the program does not exist.
    pub fn start(program: &Path, dir: &Path) -> Option<Self> {
        Self::start_cluster(program, dir, 1)?.pop()
    }

    /// Starts a cluster of `count` members on the same disk; `None` if the program does not exist.
    pub fn start_cluster(program: &Path, dir: &Path, count: usize) -> Option<Vec<Self>> {
        let ports = |number| {
            let peer = format!("http://127.0.0.1:{}", free_port());
            MemberPorts { name: format!("m{number}"), client: free_port(), peer }
        };
        let member_ports: Vec<MemberPorts> = (0..count).map(ports).collect();
        let cluster: Vec<String> =
            member_ports.iter().map(|ports| format!("{}={}", ports.name, ports.peer)).collect();
        let cluster = cluster.join(",");
        let members: Option<Vec<Self>> = member_ports
            .iter()
            .map(|ports| Self::spawn(program, &dir.join(&ports.name), ports, &cluster))
            .collect();
        let members = members?;
        members.iter().zip(&member_ports).for_each(|(member, ports)| member.wait(ports.client));
        Some(members)
    }

    fn spawn(program: &Path, dir: &Path, ports: &MemberPorts, cluster: &str) -> Option<Self> {
        let endpoint = format!("http://127.0.0.1:{}", ports.client);
        let process = Command::new(program)
            .args(["--name", &ports.name])
            .arg("--data-dir")
            .arg(dir)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &ports.peer, "--initial-advertise-peer-urls", &ports.peer])
            .args(["--initial-cluster", cluster])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { process, endpoint })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it accepts connections.
    fn wait(&self, port: u16) {
        let begin = start();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < START_LIMIT, "etcd does not start");
            // Pauses, because the starting process needs the CPU.
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port that is free, and that no outgoing connection can take before it is used.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first =
        u16::try_from(std::process::id() % u32::from(PORTS.end - PORTS.start)).expect("less than the range");
    let candidates = std::iter::repeat_with(|| {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        PORTS.start + step % (PORTS.end - PORTS.start)
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.take(PORTS.len()).find(is_free).expect("a free port")
}
