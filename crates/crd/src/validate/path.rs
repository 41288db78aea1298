//! Paths of values, formatted as in kube-apiserver's validator.

use std::fmt;

/// The path from the validated value to a part of it. Built for every value, but formatted only for
/// violations.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValuePath<'a> {
    parent: Option<&'a ValuePath<'a>>,
    step: Step<'a>,
    /// True if violations at this path are not reported.
    quiet: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    /// A declared property, without leading point at the root.
    Property(&'a str),
    /// A map key, always with a leading point.
    Key(&'a str),
    Index(usize),
}

impl<'a> ValuePath<'a> {
    pub(super) const ROOT: ValuePath<'static> = ValuePath { parent: None, step: Step::Root, quiet: false };

    pub(super) fn property(&'a self, name: &'a str) -> Self {
        self.step(Step::Property(name))
    }

    pub(super) fn key(&'a self, name: &'a str) -> Self {
        self.step(Step::Key(name))
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step, quiet: self.quiet }
    }

    /// Returns the same path, for validation whose violations are not reported.
    pub(super) fn quietly(&self) -> Self {
        Self { quiet: true, ..*self }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// Returns true if the path prints as an empty string.
    fn is_empty(&self) -> bool {
        match self.step {
            Step::Root => true,
            Step::Property(name) => name.is_empty() && self.parent.is_none_or(ValuePath::is_empty),
            Step::Key(_) | Step::Index(_) => false,
        }
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Property(name) if self.parent.is_none_or(ValuePath::is_empty) => f.write_str(name),
            Step::Property(name) | Step::Key(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
