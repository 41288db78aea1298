//! Rotation requests. They are kept in a file, so that a server sees them whether it runs or not, and they
//! survive its restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::PkiError;
use super::files::{self, Batch};
use crate::trusted_files::Secrecy;

/// The names of certificates, keys and authorities to replace.
#[derive(Debug, Default)]
pub(super) struct RotationRequests(BTreeSet<String>);

impl RotationRequests {
    /// Loads the pending requests.
    pub(super) fn load(dir: &Path) -> Result<Self, PkiError> {
        let text = files::read(&path(dir))?.unwrap_or_default();
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    pub(super) fn extend(&mut self, names: impl IntoIterator<Item = String>) {
        self.0.extend(names);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Adds the file to a batch.
    pub(super) fn store(&self, dir: &Path, batch: &mut Batch) {
        let text: String = self.0.iter().map(|name| format!("{name}\n")).collect();
        batch.add(path(dir), text, Secrecy::Private);
    }

    /// Removes the file; it is the last change of the batch.
    pub(super) fn remove_file(dir: &Path, batch: &mut Batch) {
        batch.remove(path(dir));
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("rotate")
}
