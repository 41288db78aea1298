//! File operations of the engine, behind a trait so that tests can inject failures, a full disk and a crash into each
//! of them.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::format::Inventory;
use crate::error::{Error, Result};

/// Private to the owner: values may be secrets.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// The file that is locked while a process has the directory open.
const LOCK_NAME: &str = "LOCK";

/// A directory of files. All names are file names without directories.
pub trait Files: Send + Sync + 'static {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Creates an empty file, replacing an existing one.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Renames a file; durable only after [`Files::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;
    /// Length of a file in bytes.
    fn size(&self, name: &str) -> io::Result<u64>;
    /// Releases the lock, so that other processes can open the directory.
    fn unlock(&self);
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads at an offset until the buffer is full; returns 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the contents durable.
    fn sync(&self) -> io::Result<()>;
    /// Length of the file in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// A real directory, locked by this process until it is unlocked or dropped.
#[derive(Debug)]
pub(super) struct RealFiles {
    dir: PathBuf,
    lock: Mutex<Option<fs::File>>,
}

impl RealFiles {
    /// Opens or creates a directory. Fails if another process has opened it.
    pub(super) fn open_or_create(dir: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIR_MODE);
        builder.create(dir).map_err(|source| io_error("create directory", dir, source))?;
        Self::lock(dir)
    }

    /// Opens a directory that must contain a store.
    pub(super) fn open_existing(dir: &Path) -> Result<Self> {
        let names = match list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_store(dir)),
            Err(source) => return Err(io_error("open directory", dir, source)),
        };
        if Inventory::of(names).is_empty() { Err(no_store(dir)) } else { Self::lock(dir) }
    }

    fn lock(dir: &Path) -> Result<Self> {
        let path = dir.join(LOCK_NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let lock = options.open(&path).map_err(|source| io_error("open", &path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), lock: Mutex::new(Some(lock)) }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: dir.to_owned() }),
            Err(TryLockError::Error(source)) => Err(io_error("lock", &path, source)),
        }
    }
}

fn list(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        // Names that are not UTF-8 do not belong to a store.
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

fn no_store(dir: &Path) -> Error {
    Error::Config(format!("there is no store in {}; name the directory of one", dir.display()))
}

impl Files for RealFiles {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.dir)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(self.dir.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Arc::new(RealFile(options.open(self.dir.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.dir)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.dir.join(name))?.len())
    }

    fn unlock(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: makes the length durable with the data, but not access times.
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

pub(crate) fn io_error(operation: &'static str, path: &Path, source: io::Error) -> Error {
    if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Error::DiskFull { source: Arc::new(source) };
    }
    Error::Io { operation, path: path.to_owned(), source: Arc::new(source) }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes read.
pub(super) fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
