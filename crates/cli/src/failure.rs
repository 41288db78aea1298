//! Reports a failure to the user: one line on stderr, optional advice, and the exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Error;
use coracle::ConfigError;

/// Exit code for an invalid command line, as clap's.
const USAGE: u8 = 2;

/// Advice on how to fix an error, printed on a line of its own below it. Attached as a context.
#[derive(Debug)]
pub(crate) struct Advice(pub(crate) String);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An invalid command line or environment variable.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Prints the error and returns the exit code.
pub(crate) fn report(error: &Error) -> ExitCode {
    // If stderr is closed, the error cannot be reported anywhere.
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

/// Joins the error chain. Libraries often repeat the source in the message; the repetition is omitted.
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
    fn error_chain_is_joined_without_repetition() {
        let error = denied().context("cannot open /x: permission denied").context("cannot start");
        assert_eq!(text(&error), "error: cannot start: cannot open /x: permission denied\n");
        assert_eq!(text(&denied().context("cannot open /x")), "error: cannot open /x: permission denied\n");
    }

    #[test]
    fn advice_is_printed_on_its_own_line() {
        let error = denied().context(Advice("run as root".to_owned()));
        assert_eq!(text(&error), "error: permission denied\nrun as root\n");
    }
}
