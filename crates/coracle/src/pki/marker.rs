//! What is to be replaced before its time. The wish is a file, so that it is heard by a server that runs
//! and by one that does not, and is not lost if either ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::PkiError;
use super::files::{self, Batch};
use crate::trusted_files::Secrecy;

/// The names of what is to be replaced.
#[derive(Debug, Default)]
pub(super) struct Wishes(BTreeSet<String>);

impl Wishes {
    /// What was wished for and is not done yet.
    pub(super) fn load(dir: &Path) -> Result<Self, PkiError> {
        let text = files::read(&path(dir))?.unwrap_or_default();
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    /// Adds to them.
    pub(super) fn extend(&mut self, names: impl IntoIterator<Item = String>) {
        self.0.extend(names);
    }

    pub(super) fn contain(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Has them noted.
    pub(super) fn store(&self, dir: &Path, batch: &mut Batch) {
        let text: String = self.0.iter().map(|name| format!("{name}\n")).collect();
        batch.add(path(dir), text, Secrecy::Private);
    }

    /// Has them forgotten, once everything else is in its place.
    pub(super) fn fulfil(dir: &Path, batch: &mut Batch) {
        batch.remove(path(dir));
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("rotate")
}
