//! The text of an expression, places in it, and errors that point there.

use std::fmt;
use std::sync::Arc;

use crate::limits::{MAX_ISSUES, MAX_SNIPPET_BYTES};

/// What is wrong at one place of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Counted from one; zero if the whole expression is meant.
    pub line: usize,
    /// Counted from zero, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// The text of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    text: Arc<str>,
    /// Where each line begins, in bytes.
    lines: Arc<[u32]>,
}

/// A place in the text, in bytes; [`NOWHERE`] if there is none.
pub(crate) type Offset = u32;

/// The place of what concerns the whole expression.
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

    /// A line without its end, as it is shown below an error.
    fn line(&self, line: usize) -> Option<&str> {
        let start = *self.lines.get(line.checked_sub(1)?)? as usize;
        let end = self.lines.get(line).map_or(self.text.len(), |next| *next as usize - 1);
        self.text.get(start..end)
    }
}

/// Everything that is wrong with an expression.
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

    /// They as an error, in the order of the text.
    pub(crate) fn into_error(self) -> CompileError {
        let mut issues: Vec<Issue> =
            self.found.into_iter().map(|(offset, message)| self.source.issue(offset, message)).collect();
        issues.sort_by_key(|issue| (issue.line, issue.column));
        CompileError(Box::new(Inner::Issues { source: self.source, issues, truncated: self.truncated }))
    }
}

/// Why an expression is refused. Its text is upstream's: one error after the other, each with its line of
/// the expression and a mark below the place.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(Box<Inner>);

#[derive(Clone, Debug)]
enum Inner {
    Issues { source: Source, issues: Vec<Issue>, truncated: usize },
    Program(String),
}

impl CompileError {
    /// An expression that is well-formed and of sound types, and yet cannot become a program: a constant in
    /// it has no value.
    pub(crate) fn program(message: String) -> Self {
        Self(Box::new(Inner::Program(message)))
    }

    /// The errors one by one; none if only planning the program failed (see [`Self::is_program`]).
    pub fn issues(&self) -> &[Issue] {
        match &*self.0 {
            Inner::Issues { issues, .. } => issues,
            Inner::Program(_) => &[],
        }
    }

    /// Whether parser and checker were content, and a constant such as `int('x')` has no value. Upstream
    /// tells these apart ("program instantiation failed").
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
    // Upstream's place of "nowhere" is line -1, column -1, of which it shows the column plus one.
    let line = if issue.line == 0 { "-1".to_owned() } else { issue.line.to_string() };
    // Nor has an empty expression a first column.
    let is_nowhere = issue.line == 0 || source.text.is_empty();
    let column = if is_nowhere { 0 } else { issue.column + 1 };
    write!(f, "ERROR: <input>:{line}:{column}: {}", issue.message)?;
    if is_nowhere {
        return Ok(());
    }
    let Some(text) = source.line(issue.line).filter(|text| text.len() <= MAX_SNIPPET_BYTES) else {
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
