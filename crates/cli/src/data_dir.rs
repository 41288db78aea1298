//! The default data directory, and temporary ones.

use std::env;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The directory contains private keys.
const TEMPORARY_MODE: u32 = 0o700;

/// Creates a directory for the files of a server with the memory store, below `$TMPDIR` or `/tmp`. It is removed when
/// dropped.
pub(crate) fn temporary() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("coracle-").permissions(Permissions::from_mode(TEMPORARY_MODE));
    builder.tempdir().with_context(|| {
        let parent = env::temp_dir();
        format!("cannot create a directory in {}; name one by --data-dir", parent.display())
    })
}

/// The default data directory: system-wide for root, otherwise per user.
#[expect(clippy::disallowed_methods, reason = "the environment is a part of the command line")]
pub(crate) fn of_user() -> Result<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let chosen = choose(is_root, std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"));
    chosen.context("cannot determine the home directory; set --data-dir")
}

/// Relative paths in `XDG_DATA_HOME` must be ignored (XDG Base Directory Specification).
fn choose(is_root: bool, xdg_data_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from("/var/lib/coracle"));
    }
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let user = xdg_data_home.and_then(absolute);
    let data = user.or_else(|| Some(home.and_then(absolute)?.join(".local/share")))?;
    Some(data.join("coracle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_directory_depends_on_user_and_environment() {
        for (is_root, xdg, home, expected) in [
            (true, Some("/x"), Some("/h"), Some("/var/lib/coracle")),
            (false, Some("/x"), Some("/h"), Some("/x/coracle")),
            (false, Some("x"), Some("/h"), Some("/h/.local/share/coracle")),
            (false, None, Some("/h"), Some("/h/.local/share/coracle")),
            (false, Some(""), Some(""), None),
            (false, None, None, None),
        ] {
            let found = choose(is_root, xdg.map(OsString::from), home.map(OsString::from));
            assert_eq!(found, expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }
}
