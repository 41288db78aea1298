//! The data directory of a server: created for its owner only, rejected if another user could have written
//! it, and locked while a server runs on it.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process;

use coracle_base::Task;

use crate::error::StorageError;
use crate::trusted_files::{self, Links, OpenError};

/// For the owner only, because it contains Secrets and private keys.
const MODE: u32 = 0o700;

/// The file whose lock says that a server runs on the directory. It stays after the server has ended: a file
/// that is removed while another process waits to lock it would let two processes hold a lock, each of its
/// own file.
const LOCK_NAME: &str = "coracle.lock";

/// A process id has at most ten digits. A longer file was not written by a server, and is not read to its
/// end.
const MAX_PID_BYTES: u64 = 16;

/// The lock of a data directory. The system releases it when the file is closed, also by `kill -9`.
#[derive(Debug)]
pub(crate) struct DataDirLock {
    _file: File,
}

/// Creates a data directory if there is none, and locks it for one server, whatever its store is. Nothing
/// else in the directory is read or written before.
pub(crate) async fn lock(data_dir: &Path) -> Result<DataDirLock, StorageError> {
    let dir = data_dir.to_owned();
    let locked = Task::spawn_blocking("data directory lock", move || {
        make_trusted(&dir, Links::Followed)?;
        lock_file(&dir)
    });
    locked.await.map_err(|error| failed(data_dir, io::Error::other(error).into()))?
}

/// Creates a data directory and the directory of the store in it. Directories that exist, and the files of
/// the store, must be ones that no other user could have written.
pub(crate) async fn prepare_store(data_dir: &Path, store: &Path) -> Result<(), StorageError> {
    let (dir, store) = (data_dir.to_owned(), store.to_owned());
    let prepared = Task::spawn_blocking("data directory", move || {
        make_trusted(&dir, Links::Followed)?;
        make_trusted(&store, Links::Refused)?;
        trusted_files::check_entries(&store).map_err(|error| failed(&store, error))
    });
    prepared.await.map_err(|error| failed(data_dir, io::Error::other(error).into()))?
}

fn make_trusted(path: &Path, links: Links) -> Result<(), StorageError> {
    let created = DirBuilder::new().recursive(true).mode(MODE).create(path);
    created.map_err(|source| failed(path, source.into()))?;
    trusted_files::open_dir(path, links).map(drop).map_err(|error| failed(path, error))
}

fn lock_file(data_dir: &Path) -> Result<DataDirLock, StorageError> {
    let path = data_dir.join(LOCK_NAME);
    let cannot_lock = |source| StorageError::Lock { path: path.clone(), source };
    let opened = trusted_files::open_or_create_private(&path);
    let mut file = opened.map_err(|error| match error {
        OpenError::Untrusted(untrusted) => untrusted.into(),
        OpenError::Io(source) => cannot_lock(source),
    })?;
    match file.try_lock() {
        Ok(()) => {
            write_pid(&mut file).map_err(cannot_lock)?;
            Ok(DataDirLock { _file: file })
        }
        Err(TryLockError::WouldBlock) => {
            Err(StorageError::DataDirInUse { path: data_dir.to_owned(), pid: read_pid(&mut file) })
        }
        Err(TryLockError::Error(source)) => Err(cannot_lock(source)),
    }
}

/// Not synced: only a process that is alive holds the lock, and only its pid is ever read.
fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", process::id())
}

/// The process that holds the lock; none if it has not written its pid yet.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_PID_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn failed(path: &Path, error: OpenError) -> StorageError {
    match error {
        OpenError::Untrusted(untrusted) => untrusted.into(),
        OpenError::Io(source) => StorageError::DataDir { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn second_lock_of_a_directory_names_the_process_until_the_first_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let lock = lock_file(dir.path()).unwrap();
        let error = lock_file(dir.path()).unwrap_err();
        assert!(
            matches!(&error, StorageError::DataDirInUse { path, pid } if path == dir.path() && *pid == Some(process::id())),
            "{error:?}"
        );
        drop(lock);
        lock_file(dir.path()).unwrap();
    }

    #[test]
    fn lock_file_is_private_whatever_it_was_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_NAME);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(lock_file(dir.path()).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(lock_file(dir.path()).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn lock_file_that_is_a_link_a_directory_or_writable_by_others_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join(LOCK_NAME), dir.path().join("target"));
        symlink(&target, &path).unwrap();
        let error = lock_file(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        assert!(!target.exists(), "the link was followed");
        fs::remove_file(&path).unwrap();

        fs::create_dir(&path).unwrap();
        assert!(lock_file(dir.path()).is_err());
        fs::remove_dir(&path).unwrap();

        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
        let error = lock_file(dir.path()).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }

    #[test]
    fn file_that_holds_no_pid_names_no_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for text in ["", "coracle\n", "123456789012345678901234567890"] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_pid(&mut File::open(&path).unwrap()), None, "{text}");
        }
    }
}
