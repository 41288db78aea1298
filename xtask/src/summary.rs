//! The summary at the end of `ci` and `test`: steps, results, and skipped parts.
//!
//! Skipped parts come last, because a run that passes only because it skipped something must say so prominently.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::process;

/// A skipped step or suite, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Results of the steps of one command, in the order in which they ran.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
}

#[derive(Debug)]
struct Row {
    name: String,
    failure: Option<String>,
    duration: Duration,
}

impl Summary {
    /// Runs one step; prints its name before, and its result and duration after. Returns None if the step failed.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("==> {name}");
        let (result, duration) = process::timed(work);
        let failure = result.as_ref().err().map(|error| format!("{error:#}"));
        let row = Row { name: name.to_owned(), failure, duration };
        println!("==> {}", row.line());
        self.rows.push(row);
        result.ok()
    }

    pub(crate) fn skip(&mut self, name: &str, reason: impl Into<String>) {
        self.skipped.push(Skipped { name: name.to_owned(), reason: reason.into() });
    }

    pub(crate) fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The names of the failed steps.
    pub(crate) fn failed(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.failure.is_some()).map(|row| row.name.as_str()).collect()
    }

    /// Prints the summary. Returns success if every step that ran succeeded.
    pub(crate) fn report(&self) -> ExitCode {
        println!();
        for line in self.lines() {
            println!("{line}");
        }
        if self.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn lines(&self) -> Vec<String> {
        let ran = self.rows.iter().map(Row::line);
        let skipped = self.skipped.iter().map(|part| format!("{} skipped: {}", part.name, part.reason));
        ran.chain(skipped).collect()
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
    fn skipped_parts_come_last() {
        let mut summary = Summary::default();
        summary.skip("kubectl", "not in PATH");
        assert_eq!(summary.step("workspace", || Ok(7)), Some(7));
        let lines = summary.lines();
        assert!(lines[0].starts_with("workspace ok ("), "{lines:?}");
        assert_eq!(lines[1], "kubectl skipped: not in PATH");
        assert!(summary.failed().is_empty());
    }

    #[test]
    fn failed_step_is_listed_with_its_error() {
        let mut summary = Summary::default();
        let answer: Option<()> = summary.step("clippy", || bail!("one warning"));
        assert!(answer.is_none());
        assert_eq!(summary.failed(), ["clippy"]);
        assert!(summary.lines()[0].starts_with("clippy FAILED ("));
        assert!(summary.lines()[0].ends_with(": one warning"));
    }
}
