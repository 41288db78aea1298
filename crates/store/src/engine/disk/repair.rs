//! Repairs a damaged store by discarding what follows the damage.
//!
//! A repair first reads the files as they would be afterwards, and fails if they would not be a valid store. Nothing
//! is deleted: discarded files are renamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_base::Rng;

use super::check::check_on;
use super::damage::{Cut, Fault, read_as_cut};
use super::end;
use super::files::{Files, RealFiles, io_error, read_full};
use super::format::{HEADER_BYTES, Inventory, LogEnd, segment_name, snapshot_name};
use super::log::FIRST_SEGMENT_BYTES;
use super::scan::Scan;
use super::segment::{Segment, SegmentPlan, blank};
use crate::error::{Error, Result};
use crate::revision::Revision;

/// The position at which to truncate the log, or the snapshot to discard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateAt {
    /// The file's name.
    pub file: String,
    /// The first byte to discard. 0 discards the whole file.
    pub offset: u64,
}

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The latest remaining revision.
    pub revision: Revision,
    /// Paths of the discarded data.
    pub set_aside: Vec<PathBuf>,
}

/// Discards everything in the log from a position on, or a snapshot. Discarded data is kept in files ending in
/// `.discarded`.
///
/// # Errors
/// [`Error::Config`] for a position that would leave no store; nothing has changed then.
pub fn repair(dir: &Path, at: &TruncateAt) -> Result<Repaired> {
    repair_on(&RealFiles::open_existing(dir)?, at)
}

/// Repairs files on the caller's file layer.
#[cfg(any(test, feature = "testing"))]
pub fn repair_files(files: &dyn Files, at: &TruncateAt) -> Result<Repaired> {
    repair_on(files, at)
}

fn repair_on(files: &dyn Files, at: &TruncateAt) -> Result<Repaired> {
    let cut = Cut::parse(at).ok_or_else(|| refused(at, "it is not a file of the log"))?;
    let scan = read_as_cut(files, &cut).map_err(|fault| match fault {
        Fault::Damage(damage) => {
            refused(at, &format!("{} at {}:{}", damage.detail, damage.file, damage.offset))
        }
        Fault::Other(Error::Config(reason)) => refused(at, &reason),
        Fault::Other(other) => other,
    })?;
    let set_aside = match cut {
        Cut::Snapshots { from } => discard_snapshots(files, from)?,
        Cut::Log { segment, offset } => cut_log(files, &scan, segment, offset)?,
    };
    files.sync_dir().map_err(|source| io_error("sync", &files.path(""), source))?;
    let revision = check_on(files, &mut |_| {})?.revision;
    Ok(Repaired { revision, set_aside })
}

fn refused(at: &TruncateAt, reason: &str) -> Error {
    let TruncateAt { file, offset } = at;
    Error::Config(format!(
        "cannot cut at {file}:{offset}: {reason}; `coracle store check` prints a position at which to cut"
    ))
}

fn inventory(files: &dyn Files) -> Result<Inventory> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    Ok(Inventory::of(names))
}

fn discard_snapshots(files: &dyn Files, from: Revision) -> Result<Vec<PathBuf>> {
    let discarded_revisions = inventory(files)?.snapshots.into_iter().filter(|revision| *revision >= from);
    discarded_revisions.map(|revision| discard(files, &snapshot_name(revision))).collect()
}

fn cut_log(files: &dyn Files, scan: &Scan, segment: u64, offset: u64) -> Result<Vec<PathBuf>> {
    let next = scan.continues.unwrap_or(segment).max(segment);
    let (store, sequence, revision) = (scan.store, scan.next_sequence, scan.revision);
    // First, because files may be removed only after the record of the end no longer requires them.
    end::write(files, &LogEnd { store, segment: next, sequence, revision })?;
    let is_kept = |number: u64| Cut::Log { segment, offset }.keeps_segment(number);
    let mut set_aside = Vec::new();
    for number in inventory(files)?.segments.into_iter().filter(|number| !is_kept(*number)).rev() {
        set_aside.push(discard(files, &segment_name(number))?);
    }
    if is_kept(segment) {
        set_aside.push(copy_aside(files, &segment_name(segment))?);
        blank_from(files, segment, offset)?;
    }
    let mut rng = Rng::from_entropy();
    for number in (segment..=next).filter(|number| !is_kept(*number)) {
        let plan = SegmentPlan { store, number, salt: rng.u64(), size: FIRST_SEGMENT_BYTES };
        Segment::create(files, plan)?;
    }
    Ok(set_aside)
}

/// Overwrites a segment with zeros from the offset to its original length, even if the file has been shortened.
fn blank_from(files: &dyn Files, number: u64, offset: u64) -> Result<()> {
    let segment = Segment::open(files, number).map_err(|fault| fault.into_error(files))?;
    blank(&segment, offset.max(HEADER_BYTES), segment.header.size)
        .map_err(|source| io_error("write", &files.path(&segment_name(number)), source))
}

/// A file name for discarded data that no earlier repair has used.
fn discarded_name(files: &dyn Files, name: &str) -> Result<String> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    let numbered = (2_u32..).map(|n| format!("{name}.{n}.discarded"));
    let mut candidates = std::iter::once(format!("{name}.discarded")).chain(numbered);
    let free = candidates.find(|candidate| !names.contains(candidate));
    Ok(free.expect("there are more numbers than files"))
}

fn discard(files: &dyn Files, name: &str) -> Result<PathBuf> {
    let discarded = discarded_name(files, name)?;
    files.rename(name, &discarded).map_err(|source| io_error("rename", &files.path(name), source))?;
    Ok(files.path(&discarded))
}

fn copy_aside(files: &dyn Files, name: &str) -> Result<PathBuf> {
    let discarded = discarded_name(files, name)?;
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
