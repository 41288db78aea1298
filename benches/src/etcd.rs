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

/// An etcd server of one member, on the same disk.
#[derive(Debug)]
pub struct Etcd {
    process: Child,
    /// Its URL for clients.
    pub endpoint: String,
}

impl Etcd {
    /// Starts one that keeps its data in `dir`; `None` if there is no such program.
    pub fn start(program: &Path, dir: &Path) -> Option<Self> {
        let (client, peer) = (free_port(), free_port());
        let endpoint = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(dir)
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let etcd = Self { process, endpoint };
        etcd.wait(client);
        Some(etcd)
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
