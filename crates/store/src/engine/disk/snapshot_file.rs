//! Snapshot files: written concurrently with commits; read and written for exports.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::files::{File, Files, io_error};
use super::format::{Inventory, SnapshotHeader, StoreId, segment_name, snapshot_name, temporary_name};
use super::log::SealedList;
use super::scan::snapshot_error;
use super::snapshot::{SnapshotReader, SnapshotWriter};
use crate::entry::EntryParts;
use crate::error::Result;
use crate::index::Index;
use crate::local::Local;
use crate::revision::Revision;

/// A snapshot is synced after this many bytes. One large sync at the end would delay the log's own syncs.
const SYNC_EVERY_BYTES: u64 = 128 << 10;

/// After each portion the snapshot thread pauses for this multiple of the time that the portion took, so that writers
/// have disk and CPU for themselves most of the time.
const REST: u32 = 3;

/// Maximum pause: on a stalled disk, longer pauses do not help.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// A snapshot to be written on a thread of its own.
pub(super) struct SnapshotJob {
    pub(super) files: Arc<dyn Files>,
    pub(super) store: StoreId,
    pub(super) salt: u64,
    pub(super) index: Arc<Index>,
    /// The snapshot has the state after this revision.
    pub(super) base: Revision,
    pub(super) sealed: Arc<SealedList>,
    /// The store: closing it aborts the snapshot, memory pressure skips the pauses.
    pub(super) local: Arc<Local>,
}

impl SnapshotJob {
    /// Writes the snapshot, then removes the files that it replaces. Each step is durable before the next, so the
    /// state is readable at all times.
    pub(super) fn run(self) -> Result<()> {
        let superfluous: Vec<u64> = self
            .sealed
            .lock()
            .iter()
            .take_while(|sealed| sealed.last <= self.base)
            .map(|sealed| sealed.number)
            .collect();
        let Some(last) = superfluous.last() else { return Ok(()) };
        let header =
            SnapshotHeader { store: self.store, revision: self.base, salt: self.salt, segment: last + 1 };
        let name = snapshot_name(self.base);
        let temporary = temporary_name(&name);
        let written = self.write(&temporary, &header).and_then(|()| {
            self.files.rename(&temporary, &name)?;
            self.files.sync_dir()
        });
        if let Err(source) = written {
            // Frees the space; if this fails too, opening the store will do it.
            let _ = self.files.remove(&temporary);
            self.local.check_open()?;
            return Err(io_error("write", &self.files.path(&name), source));
        }
        self.remove_replaced(&superfluous)
    }

    fn write(&self, name: &str, header: &SnapshotHeader) -> io::Result<()> {
        let out = PacedFile {
            local: &self.local,
            file: self.files.create(name)?,
            offset: 0,
            synced: 0,
            since: Instant::now(),
        };
        let mut writer = SnapshotWriter::begin(out, header)?;
        for entry in self.index.entries_at(self.base) {
            if self.local.check_open().is_err() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            writer.push(&entry.to_parts())?;
        }
        writer.finish()?.file.sync()
    }

    fn remove_replaced(&self, superfluous: &[u64]) -> Result<()> {
        let names = self.files.list().map_err(|source| io_error("list", &self.files.path(""), source))?;
        let older = Inventory::of(names).snapshots.into_iter().filter(|revision| *revision < self.base);
        let segments = superfluous.iter().map(|number| segment_name(*number));
        for name in older.map(snapshot_name).chain(segments) {
            self.files.remove(&name).map_err(|source| io_error("remove", &self.files.path(&name), source))?;
        }
        self.sealed.lock().retain(|sealed| !superfluous.contains(&sealed.number));
        Ok(())
    }
}

/// A file written sequentially, with regular syncs and pauses.
struct PacedFile<'a> {
    local: &'a Local,
    file: Arc<dyn File>,
    offset: u64,
    synced: u64,
    /// Start time of the current portion.
    since: Instant,
}

impl PacedFile<'_> {
    fn rest(&mut self) {
        // History cannot be discarded while the snapshot is written: when it grows too large, memory matters more
        // than write latency.
        let pressed = self.local.history.summary().bytes > self.local.policy.burst_bytes;
        if pressed {
            return;
        }
        let rest = (self.since.elapsed() * REST).min(LONGEST_REST);
        std::thread::park_timeout(rest);
        self.since = Instant::now();
    }
}

impl Write for PacedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        if self.offset - self.synced >= SYNC_EVERY_BYTES {
            self.file.sync()?;
            self.synced = self.offset;
            self.rest();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Total size of the store's files.
pub(super) fn disk_bytes(files: &dyn Files) -> Result<u64> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    // A file removed meanwhile counts as empty.
    Ok(names.iter().map(|name| files.size(name).unwrap_or(0)).sum())
}

/// Writes entries in snapshot format, without belonging to a store.
pub(crate) struct ExportWriter<W>(SnapshotWriter<W>);

impl<W: Write> ExportWriter<W> {
    pub(crate) fn begin(out: W, revision: Revision, salt: u64) -> io::Result<Self> {
        let header = SnapshotHeader { store: StoreId(0), revision, salt, segment: 0 };
        SnapshotWriter::begin(out, &header).map(Self)
    }

    pub(crate) fn push(&mut self, parts: &EntryParts) -> io::Result<()> {
        self.0.push(parts)
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

/// Reads the output of [`ExportWriter`].
pub(crate) struct ExportReader<R> {
    reader: SnapshotReader<R>,
    path: PathBuf,
}

impl<R: Read> ExportReader<R> {
    pub(crate) fn begin(input: R, path: &Path) -> Result<Self> {
        let path = path.to_owned();
        match SnapshotReader::begin(input) {
            Ok(reader) => Ok(Self { reader, path }),
            Err(error) => Err(snapshot_error(&path, error)),
        }
    }

    pub(crate) fn next_block(&mut self) -> Result<Option<Vec<EntryParts>>> {
        self.reader.next_block().map_err(|error| snapshot_error(&self.path, error))
    }

    pub(crate) fn offset(&self) -> u64 {
        self.reader.offset()
    }
}
