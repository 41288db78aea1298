//! What the user reads when something failed: one line, and an exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Error;
use coracle::ConfigError;

/// The exit code for a command line that makes no sense, as clap has it.
const USAGE: u8 = 2;

/// What to do about an error, printed on a line of its own below it. Attached as a context.
#[derive(Debug)]
pub(crate) struct Advice(pub(crate) String);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command line, or an environment variable, that is invalid.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Prints the error and says what to exit with.
pub(crate) fn report(error: &Error) -> ExitCode {
    // If even this cannot be written there is nobody left to tell.
    let _ = io::stderr().write_all(text(error).as_bytes());
    if error.is::<ConfigError>() || error.is::<UsageError>() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::FAILURE
    }
}

fn text(error: &Error) -> String {
    match error.downcast_ref::<Advice>() {
        Some(advice) => format!("error: {}\n{advice}\n", one_line(error.chain().skip(1))),
        None => format!("error: {}\n", one_line(error.chain())),
    }
}

/// The whole chain. Errors of others often repeat their source, which is then left out.
fn one_line<'a>(chain: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>) -> String {
    let mut line = String::new();
    for cause in chain {
        let cause = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> Error {
        Error::new(io::Error::new(io::ErrorKind::PermissionDenied, "permission\n  denied"))
    }

    #[test]
    fn the_chain_is_joined_without_repetition() {
        let error = denied().context("cannot open /x: permission denied").context("cannot start");
        assert_eq!(text(&error), "error: cannot start: cannot open /x: permission denied\n");
        assert_eq!(text(&denied().context("cannot open /x")), "error: cannot open /x: permission denied\n");
    }

    #[test]
    fn advice_has_a_line_of_its_own() {
        let error = denied().context(Advice("ask root".to_owned()));
        assert_eq!(text(&error), "error: permission denied\nask root\n");
    }
}
