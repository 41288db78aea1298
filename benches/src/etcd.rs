//! An etcd to compare with.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::measure::start;

/// How long etcd may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

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
            std::thread::yield_now();
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

/// A port that nobody listens at.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}
