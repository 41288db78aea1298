//! `coracle kubeconfig merge`: adds a cluster to the user's kubeconfig.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use coracle_api::codec::{Target, yaml};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::super::print;
use super::entries::{self, MergeError, Merged};
use crate::args::DataDirArgs;
use crate::failure::Advice;

/// Private to the owner, as kubectl creates kubeconfigs and `ssh` its directory.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Kubeconfigs have a few KiB per cluster; a larger file is rejected.
const MAX_KUBECONFIG_BYTES: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// File to merge into [default: the first existing file of $KUBECONFIG, else ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Make the cluster's context the current one. Without this it becomes the current one only if there is none.
    #[arg(long)]
    use_context: bool,
}

pub(super) fn run(args: &MergeArgs) -> Result<()> {
    let source = args.location.path()?.join("admin.kubeconfig");
    let target = resolve_links(&target(args.kubeconfig.as_deref())?);
    if is_same_file(&source, &target) {
        let advice = "name another file with --kubeconfig, or unset KUBECONFIG".to_owned();
        return Err(anyhow!("{} is the cluster's own kubeconfig", target.display()).context(Advice(advice)));
    }
    let ours = read(&source)?.with_context(|| format!("{} does not exist", source.display()));
    let ours =
        ours.map_err(|error| error.context(Advice("start the cluster once: coracle up".to_owned())))?;
    create_parent(&target)?;
    let _lock = Lock::acquire(&target)?;
    let existing = read(&target)?.unwrap_or(Value::Null);
    let merged = entries::merge(existing.clone(), &ours, args.use_context);
    let merged = merged.map_err(|error| explain(error, &target))?;
    if merged.config != existing {
        write(&target, &yaml::encode(&merged.config))?;
    }
    print(&report(&merged, &target, entries::text(&ours, "current-context")))
}

fn report(merged: &Merged, target: &Path, context: &str) -> String {
    let mut text = format!("{}: ", target.display());
    if merged.changes.is_empty() {
        text.push_str("cluster, user and context are up to date");
    }
    let changes: Vec<String> = merged.changes.iter().map(ToString::to_string).collect();
    text.push_str(&changes.join(", "));
    if merged.current_context == context {
        text.push_str(&format!("\ncurrent context: {context}\n"));
    } else {
        let current = &merged.current_context;
        text.push_str(&format!(
            "\ncurrent context: {current} (unchanged)\nuse this one: kubectl --context {context}\n"
        ));
    }
    text
}

fn explain(error: MergeError, target: &Path) -> Error {
    let advice = match &error {
        MergeError::Foreign { kind, name } => {
            let remove = format!("kubectl --kubeconfig {} config delete-{kind} {name}", target.display());
            format!("start this cluster with another --name, or remove the entry: {remove}")
        }
        MergeError::Malformed(_) => "repair the file, or name another one with --kubeconfig".to_owned(),
    };
    Error::new(error).context(format!("cannot merge into {}", target.display())).context(Advice(advice))
}

/// The file that kubectl writes new entries to (`PathOptions.GetDefaultFilename` of client-go).
fn target(given: Option<&Path>) -> Result<PathBuf> {
    let home = variable("HOME").filter(|home| !home.is_empty());
    choose(given, variable("KUBECONFIG"), home, Path::exists)
        .context("cannot determine the home directory; name a file with --kubeconfig")
}

fn choose(
    given: Option<&Path>,
    kubeconfig: Option<std::ffi::OsString>,
    home: Option<std::ffi::OsString>,
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.to_owned());
    }
    let listed =
        kubeconfig.map(|list| env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect());
    let listed: Vec<PathBuf> = listed.unwrap_or_default();
    let existing = listed.iter().find(|path| exists(path)).or(listed.last()).cloned();
    existing.or_else(|| Some(PathBuf::from(home?).join(".kube/config")))
}

#[expect(clippy::disallowed_methods, reason = "the environment is a part of the command line")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name)
}

/// Resolves a symbolic link, so that the link is preserved and its target replaced.
fn resolve_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Reads a kubeconfig. Returns None if the file does not exist, null if it is empty.
fn read(path: &Path) -> Result<Option<Value>> {
    let failed = || format!("cannot read {}", path.display());
    let size = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.with_context(failed)?.len(),
    };
    if size > MAX_KUBECONFIG_BYTES {
        bail!("{} is not a kubeconfig: it has more than {MAX_KUBECONFIG_BYTES} bytes", path.display());
    }
    let text = fs::read(path).with_context(failed)?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Some(Value::Null));
    }
    let decoded = yaml::decode(&text, Target::Any);
    let decoded = decoded.with_context(|| format!("{} is not a kubeconfig", path.display()))?;
    Ok(Some(decoded.object))
}

fn create_parent(path: &Path) -> Result<()> {
    let dir = parent(path);
    let created = DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir);
    created.with_context(|| format!("cannot create {}", dir.display()))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a file atomically, with mode 0600.
fn write(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // NamedTempFile has mode 0600.
    let mut file = NamedTempFile::new_in(parent(path)).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(path).map(drop).map_err(|error| error.error).with_context(failed)?;
    File::open(parent(path)).and_then(|dir| dir.sync_all()).with_context(failed)
}

/// The lock file that kubectl creates before it writes a kubeconfig (`lockFile` of client-go). Removed when dropped.
struct Lock(PathBuf);

impl Lock {
    fn acquire(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let advice = format!("try again, or remove {} if no kubectl is running", lock.display());
                Err(anyhow!("{} is locked by another process", path.display()).context(Advice(advice)))
            }
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove the lock file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_the_file_that_kubectl_writes() {
        let exists = |path: &Path| path == Path::new("/b") || path == Path::new("/c");
        for (given, kubeconfig, home, expected) in [
            (Some("/x"), Some("/b"), Some("/h"), Some("/x")),
            (None, Some("/a:/b:/c"), Some("/h"), Some("/b")),
            (None, Some("/a:/d"), Some("/h"), Some("/d")),
            (None, Some("/a"), None, Some("/a")),
            (None, Some(":"), Some("/h"), Some("/h/.kube/config")),
            (None, None, Some("/h"), Some("/h/.kube/config")),
            (None, None, None, None),
        ] {
            let found =
                choose(given.map(Path::new), kubeconfig.map(Into::into), home.map(Into::into), exists);
            assert_eq!(found, expected.map(PathBuf::from), "{kubeconfig:?}");
        }
    }

    #[test]
    fn lock_is_exclusive_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let lock = Lock::acquire(&path).unwrap();
        assert!(Lock::acquire(&path).is_err());
        drop(lock);
        assert!(Lock::acquire(&path).is_ok());
    }
}
