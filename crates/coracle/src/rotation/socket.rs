//! How a running cluster is told to look at its certificates: by a connection to a socket that only its
//! owner can open. Nothing is said; what is wanted is in the files. The answer is one line.

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

/// How long an answer may take to be taken. Whoever asked may be gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long whoever asks waits for the answer: a few files are written.
pub(crate) const ASKED_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait after a failed accept, at first and at most, so that it neither spins nor gives up.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Where the socket of a cluster is.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    pki::directory(data_dir).join("reload.sock")
}

/// The socket of a running cluster, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Opens it. None if that is not possible: then the cluster looks at its certificates only when they
    /// are due, and that is said.
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
        // Until here the directory keeps others out, and it still does.
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

/// Somebody who waits for an answer.
pub(crate) struct Asked(UnixStream);

/// The next who asks; nobody ever does if there is no socket.
pub(crate) async fn accept(socket: Option<&Socket>) -> Asked {
    let Some(socket) = socket else { return std::future::pending().await };
    let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, Rng::from_entropy());
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => return Asked(stream),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

impl Asked {
    /// Says how it went.
    pub(crate) async fn answer(mut self, outcome: Result<(), StartError>) {
        let text = match outcome {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
        // Whoever asked may be gone, and is then not told.
        let _ = tokio::time::timeout(ANSWER_LIMIT, self.0.write_all(text.as_bytes())).await;
    }
}
