//! Looking at a store's files without opening it, and giving up a damaged end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, RealFiles, io_error, read_full};
use super::format::{HEADER_BYTES, Inventory, SegmentHeader, segment_name};
use super::frame::FRAME_ALIGN;
use super::load::Loader;
use super::scan::{Scan, scan};
use super::segment::{Segment, blank};
use crate::error::{Error, Result};
use crate::revision::Revision;
use crate::transfer::Progress;

/// What a check found in good order.
#[derive(Clone, Debug)]
pub struct Report {
    /// Every file, in the order in which they are read.
    pub files: Vec<FileReport>,
    /// The latest revision.
    pub revision: Revision,
    /// The oldest revision kept.
    pub oldest: Revision,
    /// Keys that exist.
    pub keys: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// A write that was cut short and never acknowledged.
    pub torn: Option<Torn>,
    /// Whether the store was closed in good order.
    pub closed_cleanly: bool,
}

/// One file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Its name in the store's directory.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// Frames of the log, or entries of a snapshot.
    pub frames: u64,
    /// The first revision in it.
    pub first: Option<Revision>,
    /// The last revision in it.
    pub last: Option<Revision>,
}

/// Bytes of a write that was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file's name.
    pub file: String,
    /// Where the write began.
    pub offset: u64,
    /// How much of it there is.
    pub bytes: u64,
}

/// Where to cut off the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateAt {
    /// The file's name.
    pub file: String,
    /// The first byte to give up.
    pub offset: u64,
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The latest revision that is left.
    pub revision: Revision,
    /// Copies of what was given up.
    pub set_aside: Vec<PathBuf>,
}

/// Reads every byte of a store and changes nothing. Fails with [`Error::Damaged`] where it
/// finds damage.
pub fn check(dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    check_on(&RealFiles::open_existing(dir)?, progress)
}

pub(super) fn check_on(files: &dyn Files, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut loader = Loader::default();
    let scan = scan(files, &mut loader, progress)?.ok_or_else(|| no_files(files))?;
    Ok(report(scan, &loader))
}

fn no_files(files: &dyn Files) -> Error {
    Error::Config(format!("there is no store in {}; name the directory of one", files.path("").display()))
}

fn report(scan: Scan, loader: &Loader) -> Report {
    Report {
        revision: scan.revision,
        oldest: loader.history.oldest(),
        keys: loader.index.live_keys(),
        bytes: loader.index.live_bytes(),
        torn: scan.torn(),
        closed_cleanly: scan.closed_cleanly,
        files: scan.files,
    }
}

/// Gives up everything in the log from a place on. What is given up is kept beside it, in
/// files ending in `.discarded`.
pub fn repair(dir: &Path, at: &TruncateAt) -> Result<Repaired> {
    repair_on(&RealFiles::open_existing(dir)?, at)
}

pub(super) fn repair_on(files: &dyn Files, at: &TruncateAt) -> Result<Repaired> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    let segments = Inventory::of(names).segments;
    let number = segments.iter().copied().find(|number| segment_name(*number) == at.file);
    let number = number.ok_or_else(|| Error::Config(format!("{} is not a file of the log", at.file)))?;
    if at.offset < HEADER_BYTES || !at.offset.is_multiple_of(FRAME_ALIGN as u64) {
        return Err(Error::Config(format!(
            "cannot cut at offset {}: nothing begins there; a check names the offsets that can be cut at",
            at.offset
        )));
    }
    let mut set_aside = vec![copy_aside(files, &at.file)?];
    for later in segments.into_iter().filter(|later| *later > number) {
        let name = segment_name(later);
        let discarded = format!("{name}.discarded");
        files.rename(&name, &discarded).map_err(|source| io_error("rename", &files.path(&name), source))?;
        set_aside.push(files.path(&discarded));
    }
    cut(files, at)?;
    files.sync_dir().map_err(|source| io_error("sync", &files.path(""), source))?;
    let revision = check_on(files, &mut |_| {})?.revision;
    Ok(Repaired { revision, set_aside })
}

/// Blanks the file from the offset to where it was made to end, even if it has lost its end.
fn cut(files: &dyn Files, at: &TruncateAt) -> Result<()> {
    let path = files.path(&at.file);
    let file = files.open(&at.file).map_err(|source| io_error("open", &path, source))?;
    let mut block = vec![0; HEADER_BYTES as usize];
    let read = read_full(&*file, &mut block, 0).map_err(|source| io_error("read", &path, source))?;
    let header = SegmentHeader::decode(&block[..read]).map_err(|_| Error::Damaged {
        path: path.clone(),
        offset: 0,
        detail: "its header cannot be read, so it cannot be cut".into(),
    })?;
    let segment = Segment { header, file };
    blank(&segment, at.offset, header.size).map_err(|source| io_error("write", &path, source))
}

fn copy_aside(files: &dyn Files, name: &str) -> Result<PathBuf> {
    let discarded = format!("{name}.discarded");
    let copy = || {
        let from = files.open(name)?;
        let to: Arc<_> = files.create(&discarded)?;
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let read = read_full(&*from, &mut buffer, offset)?;
            if read == 0 {
                return to.sync();
            }
            to.write_all_at(&buffer[..read], offset)?;
            offset += read as u64;
        }
    };
    copy().map_err(|source| io_error("copy", &files.path(name), source))?;
    Ok(files.path(&discarded))
}
