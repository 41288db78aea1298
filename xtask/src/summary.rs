//! What was run, how it went and what was left out: the end of the output of `ci` and `test`.
//!
//! What was left out comes last, because a run that passes by not running something must say so where
//! everybody looks.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::process;

/// Something that was not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// The steps of one command in the order they ran.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Vec<Row>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug)]
struct Row {
    name: String,
    failure: Option<String>,
    duration: Duration,
}

impl Summary {
    /// Runs one step, printing its name before and its result and duration after. Returns what the step
    /// returned, or nothing if it failed.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("==> {name}");
        let (result, duration) = process::timed(work);
        let failure = result.as_ref().err().map(|error| format!("{error:#}"));
        let row = Row { name: name.to_owned(), failure, duration };
        println!("==> {}", row.line());
        self.rows.push(row);
        result.ok()
    }

    pub(crate) fn leave_out(&mut self, name: &str, reason: impl Into<String>) {
        self.left_out.push(LeftOut { name: name.to_owned(), reason: reason.into() });
    }

    pub(crate) fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The names of the failed steps.
    pub(crate) fn failed(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.failure.is_some()).map(|row| row.name.as_str()).collect()
    }

    /// Prints the summary; the exit code says whether everything that ran succeeded.
    pub(crate) fn report(&self) -> ExitCode {
        println!();
        for line in self.lines() {
            println!("{line}");
        }
        if self.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn lines(&self) -> Vec<String> {
        let ran = self.rows.iter().map(Row::line);
        let left_out = self.left_out.iter().map(|left| format!("{} left out: {}", left.name, left.reason));
        ran.chain(left_out).collect()
    }
}

impl Row {
    fn line(&self) -> String {
        let seconds = self.duration.as_secs_f64();
        match &self.failure {
            None => format!("{} ok ({seconds:.1} s)", self.name),
            Some(reason) => format!("{} FAILED ({seconds:.1} s): {reason}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn what_was_left_out_comes_last() {
        let mut summary = Summary::default();
        summary.leave_out("kubectl", "not in PATH");
        assert_eq!(summary.step("workspace", || Ok(7)), Some(7));
        let lines = summary.lines();
        assert!(lines[0].starts_with("workspace ok ("), "{lines:?}");
        assert_eq!(lines[1], "kubectl left out: not in PATH");
        assert!(summary.failed().is_empty());
    }

    #[test]
    fn a_failed_step_is_named_with_its_reason() {
        let mut summary = Summary::default();
        let answer: Option<()> = summary.step("clippy", || bail!("one warning"));
        assert!(answer.is_none());
        assert_eq!(summary.failed(), ["clippy"]);
        assert!(summary.lines()[0].starts_with("clippy FAILED ("));
        assert!(summary.lines()[0].ends_with(": one warning"));
    }
}
