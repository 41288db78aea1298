//! Passes the version with the commit to the crate, for `coracle --version`. A build without `.git`, such as of a
//! tarball, has no commit.

use std::path::Path;
use std::process::Command;

/// The root of the workspace. A repository further up is another project's.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Digits of the commit: enough to be unique in any repository.
const COMMIT_DIGITS: &str = "--short=12";

fn main() {
    emit("cargo:rerun-if-changed=build.rs");
    let has_repository = Path::new(ROOT).join(".git").exists();
    let commit = has_repository.then(|| git(&["rev-parse", COMMIT_DIGITS, "HEAD"])).flatten();
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        None => emit(&format!("cargo:rustc-env=CORACLE_VERSION={version}")),
        Some(commit) => {
            emit(&format!("cargo:rustc-env=CORACLE_VERSION={version} ({commit})"));
            watch_commits();
        }
    }
}

/// Runs this script again when the commit changes.
fn watch_commits() {
    // The reflog changes with every commit and checkout, unlike HEAD, which names a branch. A path that does not exist
    // would run this script on every build.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&path).exists()
        {
            emit(&format!("cargo:rerun-if-changed={path}"));
            return;
        }
    }
}

fn emit(line: &str) {
    println!("{line}");
}

/// The output of a git command; none if there is no git or the command fails.
fn git(arguments: &[&str]) -> Option<String> {
    let ran = Command::new("git").arg("-C").arg(ROOT).args(arguments).output().ok()?;
    let text = String::from_utf8(ran.stdout).ok()?;
    let text = text.trim();
    (ran.status.success() && !text.is_empty()).then(|| text.to_owned())
}
