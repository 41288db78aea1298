//! Looking at a store's files without opening it.

use std::path::Path;

use super::files::{Files, RealFiles};
use super::load::Loader;
use super::scan::{Scan, scan};
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

/// Reads every byte of a store and changes nothing. Fails with [`Error::Damaged`] where it
/// finds damage.
pub fn check(dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    check_on(&RealFiles::open_existing(dir)?, progress)
}

/// A check on a file layer of the caller's.
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
