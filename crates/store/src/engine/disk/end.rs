//! The file `END`, which records a position that the log has reached.
//!
//! Written when the store is created, closed and repaired, and when a store of an older format is first opened.
//! Without it, files missing from the end of the log would be indistinguishable from files that were never created.

use super::damage::Fault;
use super::files::{Files, io_error, read_full};
use super::format::{BadHeader, END_NAME, HEADER_BYTES, LogEnd, VERSION, temporary_name};
use crate::error::{Error, Result};

/// The state of the recorded end.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordedEnd {
    /// The file does not exist.
    Absent,
    /// The file cannot be read, for this reason.
    Damaged(&'static str),
    Known(LogEnd),
}

impl RecordedEnd {
    pub(super) fn known(&self) -> Option<LogEnd> {
        match self {
            Self::Known(end) => Some(*end),
            Self::Absent | Self::Damaged(_) => None,
        }
    }
}

/// Replaces the record durably. If it fails, the old record stays.
pub(super) fn write(files: &dyn Files, end: &LogEnd) -> Result<()> {
    let temporary = temporary_name(END_NAME);
    let written = || {
        let file = files.create(&temporary)?;
        file.write_all_at(&end.encode(), 0)?;
        file.sync()?;
        files.rename(&temporary, END_NAME)?;
        files.sync_dir()
    };
    written().map_err(|source| io_error("write", &files.path(END_NAME), source))
}

pub(super) fn read(files: &dyn Files, exists: bool) -> Result<RecordedEnd, Fault> {
    if !exists {
        return Ok(RecordedEnd::Absent);
    }
    let path = files.path(END_NAME);
    let mut block = vec![0; HEADER_BYTES as usize];
    let read = files.open(END_NAME).and_then(|file| read_full(&*file, &mut block, 0));
    let read = read.map_err(|source| io_error("read", &path, source))?;
    match LogEnd::decode(&block[..read]) {
        Ok(end) => Ok(RecordedEnd::Known(end)),
        Err(BadHeader::Damaged(detail)) => Ok(RecordedEnd::Damaged(detail)),
        Err(BadHeader::UnknownVersion(found)) => {
            Err(Error::UnknownFormat { path, found, supported: VERSION }.into())
        }
    }
}
