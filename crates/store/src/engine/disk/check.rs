//! Checks a store's files without opening the store.

use std::path::Path;

use super::files::{Files, RealFiles};
use super::load::Loader;
use super::scan::{Scan, scan};
use crate::error::{Error, Result};
use crate::revision::Revision;
use crate::transfer::Progress;

/// Result of a check without damage.
#[derive(Clone, Debug)]
pub struct Report {
    /// All files, in the order in which they are read.
    pub files: Vec<FileReport>,
    /// The latest revision.
    pub revision: Revision,
    /// The oldest kept revision.
    pub oldest: Revision,
    /// Number of keys.
    pub keys: u64,
    /// Total size of keys and values.
    pub bytes: u64,
    /// An incomplete write that was never acknowledged, if there is one.
    pub torn: Option<Torn>,
    /// True if the store was closed cleanly.
    pub closed_cleanly: bool,
}

/// Report of one file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// Its name in the store's directory.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of frames of a log segment, or of entries of a snapshot.
    pub frames: u64,
    /// The first revision in the file.
    pub first: Option<Revision>,
    /// The last revision in the file.
    pub last: Option<Revision>,
}

/// An incomplete write at the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file's name.
    pub file: String,
    /// Offset at which the write begins.
    pub offset: u64,
    /// Number of its bytes that exist.
    pub bytes: u64,
}

/// Reads all files of a store without changing them. Returns [`Error::Damaged`] if it finds damage.
pub fn check(dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    check_on(&RealFiles::open_existing(dir)?, progress)
}

/// Checks files on the caller's file layer.
#[cfg(any(test, feature = "testing"))]
pub fn check_files(files: &dyn Files) -> Result<Report> {
    check_on(files, &mut |_| {})
}

pub(super) fn check_on(files: &dyn Files, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut loader = Loader::default();
    let scan = scan(files, &mut loader, progress, None).map_err(|fault| fault.into_error(files))?;
    let scan = scan.ok_or_else(|| no_files(files))?;
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
