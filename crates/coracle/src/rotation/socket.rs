//! The socket by which a running server is asked to carry out rotation requests. Only its owner can open
//! it. A connection carries no request, because the requests are in files; the answer is one line.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_base::Backoff;
use coracle_base::Rng;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

use crate::error::StartError;
use crate::pki;

/// Time limit for writing an answer to a client that may be gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for reading the answer: the server writes a few files.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Initial and maximum delay after a failed accept, so that the task neither spins nor gives up.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The path of the socket.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    pki::directory(data_dir).join("reload.sock")
}

/// The socket of a running server, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Opens the socket. None if that fails, which is logged: certificates are then renewed only when they
    /// are due.
    pub(crate) fn open(data_dir: &Path) -> Option<Self> {
        let path = path(data_dir);
        match Self::bind(&path) {
            Ok(listener) => Some(Self { listener, path }),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot listen for rotation requests; they wait for the next start");
                None
            }
        }
    }

    fn bind(path: &Path) -> io::Result<UnixListener> {
        if BlockingStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server uses the same directory"));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        // Before this, and still, the directory keeps other users out.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(listener)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If it stays, the next start removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// A client that waits for an answer.
pub(crate) struct RotationClient(UnixStream);

/// The next client; waits for ever if there is no socket.
pub(crate) async fn accept(socket: Option<&Socket>) -> RotationClient {
    let Some(socket) = socket else { return std::future::pending().await };
    let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, Rng::from_entropy());
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => return RotationClient(stream),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

impl RotationClient {
    /// Writes the result.
    pub(crate) async fn respond(mut self, outcome: Result<(), StartError>) {
        let text = match outcome {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
        // The client may be gone.
        let _ = tokio::time::timeout(WRITE_TIMEOUT, self.0.write_all(text.as_bytes())).await;
    }
}
