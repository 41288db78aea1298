//! Runs other programs from the root of the workspace, and prints their command lines.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The root of the workspace, independent of the current directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the workspace")
}

/// A command that starts in the root of the workspace.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A cargo command that builds the same as the command typed by hand.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = command("cargo");
    command.args(args);
    // `cargo run` sets variables that describe xtask. Build scripts that watch them, such as ring's, would run again
    // on every change between `cargo test` and `cargo xtask test`.
    for (name, _) in std::env::vars_os() {
        if describes_a_package(&name.to_string_lossy()) {
            command.env_remove(&name);
        }
    }
    command
}

/// Prints the command and runs it with inherited output. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed with {status}");
    }
    Ok(())
}

/// Stdout of a command that must succeed.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting `{line}`"))?;
    if !output.status.success() {
        let detail = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed with {}: {}", output.status, detail.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of `{line}`"))
}

/// Finds an installed program, also in the directories where Debian installs the administrator's programs.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    search_path()
        .into_iter()
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// Runs `work`; returns its result and duration.
#[expect(clippy::disallowed_methods, reason = "build commands take real time; there is no clock to inject")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "finding an installed program means reading PATH")]
fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn describes_a_package(variable: &str) -> bool {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];
    prefixes.iter().any(|prefix| variable.starts_with(prefix)) || variable == "CARGO_PRIMARY_PACKAGE"
}

/// The command as typed in a shell, with the variables that it sets and without those that it removes.
fn command_line(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_can_be_typed_again() {
        let mut command = Command::new("cargo");
        command.arg("doc").env("RUSTDOCFLAGS", "-D warnings").env_remove("CARGO_PKG_NAME");
        assert_eq!(command_line(&command), "RUSTDOCFLAGS='-D warnings' cargo doc");
    }

    #[test]
    fn capture_returns_output_and_fails_with_the_command() {
        assert_eq!(capture(command("sh").args(["-c", "echo one"])).unwrap(), "one\n");
        let error = capture(command("sh").args(["-c", "echo wrong >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("wrong"), "{error}");
    }

    #[test]
    fn run_fails_for_failing_and_missing_programs() {
        assert!(run(&mut command("true")).is_ok());
        assert!(run(&mut command("false")).is_err());
        assert!(run(&mut command("coracle-no-such-program")).is_err());
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(find_program("sh").is_some());
        assert!(find_program("coracle-no-such-program").is_none());
    }

    #[test]
    fn only_variables_about_a_package_are_dropped() {
        assert!(describes_a_package("CARGO_PKG_NAME"));
        assert!(describes_a_package("CARGO_MANIFEST_DIR"));
        assert!(!describes_a_package("CARGO_TARGET_DIR"));
        assert!(!describes_a_package("CARGO_HOME"));
    }
}
