//! Files that are whole or not there, and private from the first byte on.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use super::error::PkiError;
use crate::trusted_files::{self, Links, OpenError, Secrecy};

/// Makes a directory, and those above it, for its owner only. One that exists is left as it is.
pub(super) fn create_private_dir(path: &Path) -> Result<(), PkiError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|source| failed("create", path, source))
}

/// Waits until nobody else holds the directory, which must be one that only its owner can write. Held until the file is
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
    // Bytes that are not text are not PEM either; the parser rejects them.
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Files that hold private keys, by the names this module gives them.
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

/// Files that are put in place together. Needs the lock, for the names aside are always the same.
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
    /// Has a file written, instead of what was to be written there before.
    pub(super) fn add(&mut self, path: PathBuf, text: String, secrecy: Secrecy) {
        self.removed.remove(&path);
        self.added.retain(|pending| pending.path != path);
        self.added.push(Pending { path, text, secrecy });
    }

    /// Has a file removed, should it be there.
    pub(super) fn remove(&mut self, path: PathBuf) {
        self.added.retain(|pending| pending.path != path);
        if path.exists() {
            self.removed.insert(path);
        }
    }

    /// What is to be written there.
    pub(super) fn text(&self, path: &Path) -> Option<&str> {
        self.added.iter().find(|pending| pending.path == path).map(|pending| pending.text.as_str())
    }

    /// Writes the files, and then removes those that are to go. Of each the old one or the new one is
    /// there at any time, and they appear in the order in which they were added; on return they are there
    /// to stay.
    pub(super) fn commit(self) -> Result<(), PkiError> {
        let done = self.stage().and_then(|()| self.publish());
        if done.is_err() {
            for pending in &self.added {
                // Mostly not there; and if it cannot be removed, the next start does it.
                let _ = fs::remove_file(aside(&pending.path));
            }
        }
        done
    }

    /// Side by side, because a disk syncs many files in hardly more time than one, and a start
    /// takes as long as this does.
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

/// Makes renames in a directory last.
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
    // Created anew, so that the mode is the one asked for and no link is followed.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(secrecy.mode()).open(path)?;
    // Whatever the process masks: what is public must stay readable, or nobody could verify anything.
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
