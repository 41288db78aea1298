//! Damage found in a store's files, and how to recover from it.
//!
//! Every damage names the position at which the log can be truncated, if there is one. Whether the truncated store
//! opens is not assumed but tested: the files are read as they would be after the repair. So `check` never names a
//! position that `repair` rejects.

use std::fmt;

use super::TruncateAt;
use super::files::Files;
use super::format::{HEADER_BYTES, segment_name, segment_number, snapshot_name, snapshot_revision};
use super::load::Loader;
use super::scan::{Scan, scan};
use crate::error::Error;
use crate::revision::Revision;

/// Reason why files could not be read as a store.
#[derive(Debug)]
pub(super) enum Fault {
    Damage(Damage),
    Other(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Other(error)
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Fault::Damage(damage)
    }
}

/// Durable data that is missing or changed.
#[derive(Debug)]
pub(super) struct Damage {
    /// The damaged file.
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) detail: String,
    /// The truncation that repairs it; `None` if no store would remain.
    pub(super) cut: Option<Cut>,
}

/// The part of the store that a repair discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The log from this position on. Offset 0 discards the whole segment, whatever its header contains.
    Log { segment: u64, offset: u64 },
    /// Snapshots of this revision and later, in favour of an earlier one.
    Snapshots { from: Revision },
}

impl Damage {
    /// A segment that cannot be read at all.
    pub(super) fn unusable_segment(number: u64, detail: impl Into<String>) -> Self {
        let cut = Some(Cut::Log { segment: number, offset: 0 });
        Self { file: segment_name(number), offset: 0, detail: detail.into(), cut }
    }

    /// Damage at an offset in a segment.
    pub(super) fn in_segment(number: u64, offset: u64, detail: impl Into<String>) -> Self {
        let cut = Some(Cut::Log { segment: number, offset });
        Self { file: segment_name(number), offset, detail: detail.into(), cut }
    }

    pub(super) fn in_snapshot(revision: Revision, offset: u64, detail: impl Into<String>) -> Self {
        let cut = Some(Cut::Snapshots { from: revision });
        Self { file: snapshot_name(revision), offset, detail: detail.into(), cut }
    }
}

impl Cut {
    /// Parses a position given by the user. `None` if the file is neither a segment nor a snapshot.
    pub(super) fn parse(at: &TruncateAt) -> Option<Self> {
        if let Some(segment) = segment_number(&at.file) {
            return Some(Self::Log { segment, offset: at.offset });
        }
        let from = snapshot_revision(&at.file).filter(|_| at.offset == 0)?;
        Some(Self::Snapshots { from })
    }

    fn position(&self) -> TruncateAt {
        match *self {
            Self::Log { segment, offset } => TruncateAt { file: segment_name(segment), offset },
            Self::Snapshots { from } => TruncateAt { file: snapshot_name(from), offset: 0 },
        }
    }

    /// Returns true if this discards more than `other`, both of the log.
    fn is_before(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Log { segment, offset }, Self::Log { segment: other_segment, offset: other_offset }) => {
                (segment, offset) < (other_segment, other_offset)
            }
            _ => false,
        }
    }

    /// Returns true if a part of this segment is kept.
    pub(super) fn keeps_segment(&self, number: u64) -> bool {
        match *self {
            Self::Log { segment, offset } => number < segment || number == segment && offset >= HEADER_BYTES,
            Self::Snapshots { .. } => true,
        }
    }
}

/// How to recover from damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// Truncate the log: [`super::repair`] at this position.
    Truncate {
        /// The position to pass to the repair.
        at: TruncateAt,
        /// Every write up to this revision is kept.
        keeps: Revision,
        /// The latest revision that the store is known to have reached. Unless it was closed cleanly, it may have
        /// reached a later one.
        reached: Option<Revision>,
    },
    /// The files contain no readable state: restore a backup of the directory, or import an export into a new store.
    EarlierCopy,
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EarlierCopy => f.write_str("only an earlier copy of the store or an export can replace it"),
            Self::Truncate { keeps, reached: Some(reached), .. } if reached <= keeps => {
                write!(f, "a repair keeps every write up to revision {keeps}, the latest known")
            }
            Self::Truncate { keeps, reached: Some(reached), .. } => write!(
                f,
                "a repair keeps every write up to revision {keeps} and loses those up to revision {reached} \
                 and any later"
            ),
            Self::Truncate { keeps, reached: None, .. } => {
                write!(f, "a repair keeps every write up to revision {keeps} and loses any later")
            }
        }
    }
}

impl Fault {
    /// The error for callers, including the recovery.
    pub(super) fn into_error(self, files: &dyn Files) -> Error {
        match self {
            Fault::Other(error) => error,
            Fault::Damage(damage) => Error::Damaged {
                path: files.path(&damage.file),
                offset: damage.offset,
                way_out: Box::new(way_out(files, &damage)),
                detail: damage.detail,
            },
        }
    }
}

/// Tries the truncation that the damage suggests, and those suggested by further damage, until the files would open.
fn way_out(files: &dyn Files, damage: &Damage) -> WayOut {
    let mut next = damage.cut;
    while let Some(cut) = next {
        match read_as_cut(files, &cut) {
            Ok(scan) => {
                let reached = scan.recorded_end.known().map(|end| end.revision.max(scan.revision));
                return WayOut::Truncate { at: cut.position(), keeps: scan.revision, reached };
            }
            // Every step discards more than the previous one, so this ends.
            Err(Fault::Damage(further)) => next = further.cut.filter(|further| further.is_before(&cut)),
            Err(Fault::Other(_)) => break,
        }
    }
    WayOut::EarlierCopy
}

/// Reads the files as they would be after the truncation.
pub(super) fn read_as_cut(files: &dyn Files, cut: &Cut) -> Result<Scan, Fault> {
    let scan = scan(files, &mut Loader::default(), &mut |_| {}, Some(cut))?;
    scan.ok_or_else(|| Fault::Other(Error::Config("nothing would be left of the store".to_owned())))
}
