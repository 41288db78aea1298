//! Violations of the server's guarantees, with the expected and the found value.

use std::fmt;

/// Guarantees that a run checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// An acknowledged write survives a crash, with its content.
    Durability,
    /// An object stays deleted after an acknowledged delete.
    Deletion,
    /// A request is acknowledged or rejected only if the state of the object allows it.
    Consistency,
    /// A PUT with a `resourceVersion` changes that version of the object and no other.
    OptimisticLock,
    /// Revisions grow, and no two changes have the same one.
    Revisions,
    /// A watch delivers events in the order of their revisions, each once.
    EventOrder,
    /// A watch delivers every change.
    EventGap,
    /// A watch delivers only changes that happened.
    EventPhantom,
    /// All watches deliver the same changes.
    EventAgreement,
    /// A list equals the state that follows from the events up to its revision.
    List,
    /// The server runs until it is killed, starts on the files of a killed server, and answers.
    Availability,
}

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The object, the watch or the process.
    pub(crate) subject: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Violation {
    pub(crate) fn new(
        rule: Rule,
        subject: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        let [subject, expected, found] = [subject.to_string(), expected.to_string(), found.to_string()];
        Self { rule, subject, expected, found }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, subject, expected, found } = self;
        write!(f, "{rule:?}: {subject}: expected {expected}; found {found}")
    }
}
