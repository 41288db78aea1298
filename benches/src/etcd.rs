//! An etcd to compare with.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::measure::start;

/// How long etcd may take to start, and how often it is asked whether it has.
const START_LIMIT: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// Ports that no system gives to connections that only want any port.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// One member of an etcd cluster, which may have no other.
#[derive(Debug)]
pub struct Etcd {
    process: Child,
    /// Its URL for clients.
    pub endpoint: String,
}

/// The addresses of a member to be.
struct Place {
    name: String,
    client: u16,
    peer: String,
}

impl Etcd {
    /// Starts one that keeps its data in `dir`; `None` if there is no such program.
    pub fn start(program: &Path, dir: &Path) -> Option<Self> {
        Self::start_cluster(program, dir, 1)?.pop()
    }

    /// Starts a cluster of `count` members on the same disk; `None` if there is no such program.
    pub fn start_cluster(program: &Path, dir: &Path, count: usize) -> Option<Vec<Self>> {
        let place = |number| {
            let peer = format!("http://127.0.0.1:{}", free_port());
            Place { name: format!("m{number}"), client: free_port(), peer }
        };
        let places: Vec<Place> = (0..count).map(place).collect();
        let cluster: Vec<String> =
            places.iter().map(|place| format!("{}={}", place.name, place.peer)).collect();
        let cluster = cluster.join(",");
        let members: Option<Vec<Self>> = places
            .iter()
            .map(|place| Self::spawn(program, &dir.join(&place.name), place, &cluster))
            .collect();
        let members = members?;
        members.iter().zip(&places).for_each(|(member, place)| member.wait(place.client));
        Some(members)
    }

    fn spawn(program: &Path, dir: &Path, place: &Place, cluster: &str) -> Option<Self> {
        let endpoint = format!("http://127.0.0.1:{}", place.client);
        let process = Command::new(program)
            .args(["--name", &place.name])
            .arg("--data-dir")
            .arg(dir)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &place.peer, "--initial-advertise-peer-urls", &place.peer])
            .args(["--initial-cluster", cluster])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { process, endpoint })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Until it takes connections.
    fn wait(&self, port: u16) {
        let begin = start();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < START_LIMIT, "etcd does not start");
            // Not at once: whoever starts needs the processor more.
            std::thread::park_timeout(ASK_AGAIN);
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that nobody listens at, and that no connection is given by chance before somebody does.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % u32::from(PORTS.end - PORTS.start)).expect("a part of it");
    let candidates = std::iter::repeat_with(|| {
        let step = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        PORTS.start + step % (PORTS.end - PORTS.start)
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.take(PORTS.len()).find(is_free).expect("a free port")
}
