//! Where a value stands, printed as upstream's validator does.

use std::fmt;

/// The way from the value that is checked to a part of it. Built on the way down, printed only when
/// something is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
    /// Whether nobody will read what is wrong here.
    quiet: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    /// A known property. It is not separated from nothing.
    Property(&'a str),
    /// A key of a map, always with a point before it.
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, step: Step::Root, quiet: false };

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

    /// The same place, where it only matters whether something is wrong.
    pub(super) fn quietly(&self) -> Self {
        Self { quiet: true, ..*self }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// Whether nothing would be printed.
    fn is_empty(&self) -> bool {
        match self.step {
            Step::Root => true,
            Step::Property(name) => name.is_empty() && self.parent.is_none_or(Place::is_empty),
            Step::Key(_) | Step::Index(_) => false,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Property(name) if self.parent.is_none_or(Place::is_empty) => f.write_str(name),
            Step::Property(name) | Step::Key(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
