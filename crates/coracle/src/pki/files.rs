//! Atomic writes of files with restricted permissions.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use super::error::PkiError;
use crate::trusted_files::{self, Links, OpenError, Secrecy};

/// Creates a directory and its parents for the owner only. An existing directory is left as it is.
pub(super) fn create_private_dir(path: &Path) -> Result<(), PkiError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|source| failed("create", path, source))
}

/// Waits for the lock of the directory, which must be writable by its owner only. Released when the file is
/// dropped.
pub(super) fn lock(dir: &Path) -> Result<File, PkiError> {
    let opened =
        trusted_files::open_dir(dir, Links::Refused).map_err(|error| unopened("open", dir, error))?;
    opened.lock().map_err(|source| failed("lock", dir, source))?;
    Ok(opened)
}

/// The contents of a file that no other user could have written; none if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, PkiError> {
    let bytes = trusted_files::read(path, secrecy(path)).map_err(|error| unopened("read", path, error))?;
    // Bytes that are not UTF-8 are not PEM either; the parser rejects them.
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The secrecy of a file, by the names this module uses.
fn secrecy(path: &Path) -> Secrecy {
    let is_private = path.extension().is_some_and(|kind| kind == "key" || kind == "kubeconfig");
    if is_private { Secrecy::Private } else { Secrecy::Public }
}

fn unopened(operation: &'static str, path: &Path, error: OpenError) -> PkiError {
    match error {
        OpenError::Untrusted(untrusted) => untrusted.into(),
        OpenError::Io(source) => failed(operation, path, source),
    }
}

/// Files that are written together. Needs the lock, because the names of the temporary files are fixed.
#[derive(Debug, Default)]
pub(super) struct Batch {
    added: Vec<Pending>,
    removed: BTreeSet<PathBuf>,
}

struct Pending {
    path: PathBuf,
    text: String,
    secrecy: Secrecy,
}

/// Without the text, which may be a private key.
impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Batch {
    /// Adds a file to write; replaces an earlier version of it in this batch.
    pub(super) fn add(&mut self, path: PathBuf, text: String, secrecy: Secrecy) {
        self.removed.remove(&path);
        self.added.retain(|pending| pending.path != path);
        self.added.push(Pending { path, text, secrecy });
    }

    /// Adds a file to remove, if it exists.
    pub(super) fn remove(&mut self, path: PathBuf) {
        self.added.retain(|pending| pending.path != path);
        if path.exists() {
            self.removed.insert(path);
        }
    }

    /// The pending text of a file.
    pub(super) fn text(&self, path: &Path) -> Option<&str> {
        self.added.iter().find(|pending| pending.path == path).map(|pending| pending.text.as_str())
    }

    /// Writes and then removes the files. Each file has either its old or its new contents at any time, and
    /// they are replaced in the order in which they were added; on return they are synced.
    pub(super) fn commit(self) -> Result<(), PkiError> {
        let done = self.stage().and_then(|()| self.publish());
        if done.is_err() {
            for pending in &self.added {
                // Usually it does not exist; if it cannot be removed, the next start does it.
                let _ = fs::remove_file(aside(&pending.path));
            }
        }
        done
    }

    /// Writes the temporary files in parallel, because a disk syncs many files in hardly more time than
    /// one, and the start of the server waits for this.
    fn stage(&self) -> Result<(), PkiError> {
        thread::scope(|scope| {
            let write = |pending: &Pending| {
                let written = write_whole(&aside(&pending.path), &pending.text, pending.secrecy);
                written.map_err(|source| failed("write", &pending.path, source))
            };
            let started = self.added.iter().map(|pending| {
                let thread = thread::Builder::new().name("pki-write".to_owned());
                let thread = thread.spawn_scoped(scope, move || write(pending));
                thread.map_err(|source| failed("write", &pending.path, source))
            });
            let started: Vec<_> = started.collect();
            started.into_iter().try_for_each(|thread| thread?.join().expect("writing does not panic"))
        })
    }

    fn publish(&self) -> Result<(), PkiError> {
        for Pending { path, .. } in &self.added {
            fs::rename(aside(path), path).map_err(|source| failed("write", path, source))?;
        }
        for path in &self.removed {
            remove(path)?;
        }
        let changed = self.added.iter().map(|pending| &pending.path).chain(&self.removed);
        let dirs: BTreeSet<_> = changed.filter_map(|path| path.parent()).collect();
        dirs.into_iter().try_for_each(sync_dir)
    }
}

/// Syncs the renames in a directory.
fn sync_dir(dir: &Path) -> Result<(), PkiError> {
    File::open(dir).and_then(|file| file.sync_all()).map_err(|source| failed("sync", dir, source))
}

fn remove(path: &Path) -> Result<(), PkiError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, source)),
        _ => Ok(()),
    }
}

fn write_whole(path: &Path, text: &str, secrecy: Secrecy) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Created anew, so that the mode is the requested one and no link is followed.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(secrecy.mode()).open(path)?;
    // Independent of the umask: public files must be readable for clients to verify certificates.
    file.set_permissions(Permissions::from_mode(secrecy.mode()))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> PkiError {
    PkiError::Io { operation, path: path.to_owned(), source }
}
