//! Source text of an expression, positions in it, and error messages with a snippet.

use std::fmt;
use std::sync::Arc;

use crate::limits::{MAX_ISSUES, MAX_SNIPPET_BYTES};

/// An error at a position of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Line, counted from one; zero if the error concerns the whole expression.
    pub line: usize,
    /// Column, counted from zero in characters.
    pub column: usize,
    /// The message.
    pub message: String,
}

/// The text of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    text: Arc<str>,
    /// Byte offset of the start of each line.
    lines: Arc<[u32]>,
}

/// A byte offset in the text; [`NOWHERE`] if there is none.
pub(crate) type Offset = u32;

/// The offset of errors that concern the whole expression.
pub(crate) const NOWHERE: Offset = u32::MAX;

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let starts = text.bytes().zip(1..).filter(|(byte, _)| *byte == b'\n').map(|(_, next)| next);
        Self { text: text.into(), lines: std::iter::once(0).chain(starts).collect() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn issue(&self, offset: Offset, message: String) -> Issue {
        if offset == NOWHERE {
            return Issue { line: 0, column: 0, message };
        }
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1] as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self.text.get(start..end).map_or(0, |before| before.chars().count());
        Issue { line, column, message }
    }

    /// Returns a line without its line break, for the snippet below an error.
    fn line(&self, line: usize) -> Option<&str> {
        let start = *self.lines.get(line.checked_sub(1)?)? as usize;
        let end = self.lines.get(line).map_or(self.text.len(), |next| *next as usize - 1);
        self.text.get(start..end)
    }
}

/// Errors found in an expression.
#[derive(Clone, Debug)]
pub(crate) struct Issues {
    source: Source,
    found: Vec<(Offset, String)>,
    truncated: usize,
}

impl Issues {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, found: Vec::new(), truncated: 0 }
    }

    pub(crate) fn report(&mut self, offset: Offset, message: impl Into<String>) {
        if self.found.len() < MAX_ISSUES {
            self.found.push((offset, message.into()));
        } else {
            self.truncated += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the errors in the order of the text.
    pub(crate) fn into_error(self) -> CompileError {
        let mut issues: Vec<Issue> =
            self.found.into_iter().map(|(offset, message)| self.source.issue(offset, message)).collect();
        issues.sort_by_key(|issue| (issue.line, issue.column));
        CompileError(Box::new(Inner::Issues { source: self.source, issues, truncated: self.truncated }))
    }
}

/// Reason why an expression does not compile. Its `Display` is cel-go's: one error after the other,
/// each with its source line and a mark below the position.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(Box<Inner>);

#[derive(Clone, Debug)]
enum Inner {
    Issues { source: Source, issues: Vec<Issue>, truncated: usize },
    Program(String),
}

impl CompileError {
    /// Creates the error for an expression that passes the type checker but cannot be planned,
    /// because a constant in it is invalid.
    pub(crate) fn program(message: String) -> Self {
        Self(Box::new(Inner::Program(message)))
    }

    /// Returns the individual errors; empty if only planning failed (see [`Self::is_program`]).
    pub fn issues(&self) -> &[Issue] {
        match &*self.0 {
            Inner::Issues { issues, .. } => issues,
            Inner::Program(_) => &[],
        }
    }

    /// Returns true if the expression passes the type checker, but a constant such as `int('x')` is
    /// invalid. kube-apiserver distinguishes these errors ("program instantiation failed").
    pub fn is_program(&self) -> bool {
        matches!(&*self.0, Inner::Program(_))
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(message) => f.write_str(message),
            Self::Issues { source, issues, truncated } => {
                for (index, issue) in issues.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "\n" })?;
                    write_issue(f, source, issue)?;
                }
                if *truncated > 0 {
                    write!(f, "\n{truncated} more errors were truncated")?;
                }
                Ok(())
            }
        }
    }
}

fn write_issue(f: &mut fmt::Formatter<'_>, source: &Source, issue: &Issue) -> fmt::Result {
    // In cel-go a missing position is line -1, column -1, printed as column plus one.
    let line = if issue.line == 0 { "-1".to_owned() } else { issue.line.to_string() };
    // The end of an empty expression also has column -1.
    let is_nowhere = issue.line == 0 || source.text().is_empty();
    let column = if is_nowhere { 0 } else { issue.column + 1 };
    write!(f, "ERROR: <input>:{line}:{column}: {}", issue.message)?;
    let snippet = source.line(issue.line).filter(|text| text.len() <= MAX_SNIPPET_BYTES && !is_nowhere);
    let Some(text) = snippet else {
        return Ok(());
    };
    let text = text.replace('\t', " ");
    write!(f, "\n | {text}\n | ")?;
    let mut characters = text.chars();
    for character in characters.by_ref().take(issue.column) {
        f.write_str(if character.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if characters.next().is_none_or(|character| character.is_ascii()) { "^" } else { "\u{ff3e}" })
}
