//! Reset fields: fields that writes to a resource or subresource do not change.
//!
//! A write to an object does not change its status, and a write to the status changes nothing else.
//! A manager must not own fields that the server resets anyway, even if it sent them.

use super::field_set::{FieldNode, FieldSet};
use super::path_element::PathElement;

/// Filter for the fields that a write may own.
#[derive(Clone, Debug)]
pub enum FieldFilter {
    /// All fields except these subtrees.
    Except(FieldSet),
    /// Only these fields and their descendants.
    Only(PathPattern),
}

/// A tree of path patterns, whose steps may be wildcards.
#[derive(Clone, Debug, Default)]
pub struct PathPattern {
    /// If empty, everything below matches.
    branches: Vec<(PatternStep, PathPattern)>,
}

/// A step of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternStep {
    /// Matches this element.
    Element(PathElement),
    /// Matches any element.
    Any,
}

impl PatternStep {
    /// Creates the step to a field.
    pub fn field(name: &str) -> Self {
        Self::Element(PathElement::field(name))
    }

    fn matches(&self, element: &PathElement) -> bool {
        match self {
            Self::Element(own) => own == element,
            Self::Any => true,
        }
    }
}

impl PathPattern {
    /// Creates a pattern that matches these paths and everything below them.
    pub fn of(paths: &[&[PatternStep]]) -> Self {
        let mut pattern = Self::default();
        for path in paths {
            pattern.insert(path);
        }
        pattern
    }

    fn insert(&mut self, path: &[PatternStep]) {
        let Some((step, rest)) = path.split_first() else { return };
        let at = self.branches.iter().position(|(own, _)| own == step).unwrap_or_else(|| {
            self.branches.push((step.clone(), Self::default()));
            self.branches.len() - 1
        });
        self.branches[at].1.insert(rest);
    }

    fn filter(&self, set: FieldSet) -> FieldSet {
        if self.branches.is_empty() {
            return set;
        }
        let nodes = set.into_nodes().into_iter().filter_map(|node| {
            let matching = self.branches.iter().filter(|(step, _)| step.matches(&node.element));
            let filtered =
                matching.map(|(_, below)| below.filter(node.children.clone())).reduce(FieldSet::union)?;
            (node.member || !filtered.is_empty()).then_some(FieldNode { children: filtered, ..node })
        });
        FieldSet::from_nodes(nodes.collect())
    }
}

impl FieldFilter {
    /// Removes the fields that the filter excludes.
    #[must_use]
    pub fn apply(&self, mut set: FieldSet) -> FieldSet {
        match self {
            Self::Except(excluded) => {
                set.remove_subtrees(excluded);
                set
            }
            Self::Only(pattern) => pattern.filter(set),
        }
    }
}

/// Field filters by version of a kind.
#[derive(Clone, Debug, Default)]
pub struct ResetFields {
    by_version: Vec<(Box<str>, FieldFilter)>,
}

impl ResetFields {
    /// Filters nothing.
    pub const NONE: &'static Self = &Self { by_version: Vec::new() };

    /// Adds the filter of a version.
    #[must_use]
    pub fn with(mut self, api_version: &str, filter: FieldFilter) -> Self {
        self.by_version.push((api_version.into(), filter));
        self
    }

    /// Returns the excluded subtrees of a version, if any; `None` if the filter is more than a list
    /// of excluded subtrees.
    pub(super) fn excluded_subtrees(&self, api_version: &str) -> Option<Option<&FieldSet>> {
        match self.of(api_version) {
            None => Some(None),
            Some(FieldFilter::Except(trees)) => Some(Some(trees)),
            Some(FieldFilter::Only(_)) => None,
        }
    }

    fn of(&self, api_version: &str) -> Option<&FieldFilter> {
        self.by_version.iter().find(|(version, _)| **version == *api_version).map(|(_, filter)| filter)
    }

    pub(super) fn filter(&self, api_version: &str, set: FieldSet) -> FieldSet {
        match self.of(api_version) {
            Some(filter) => filter.apply(set),
            None => set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn except_filter_removes_subtrees() {
        let filter = FieldFilter::Except(FieldSet::of_fields(&[&["status"]]));
        let set = FieldSet::of_fields(&[&["spec", "a"], &["status"], &["status", "b", "c"]]);
        assert_eq!(filter.apply(set), FieldSet::of_fields(&[&["spec", "a"]]));
    }

    #[test]
    fn only_filter_retains_matching_subtrees() {
        let (spec, containers) = (PatternStep::field("spec"), PatternStep::field("containers"));
        let pattern = PathPattern::of(&[
            &[spec.clone(), containers.clone(), PatternStep::Any, PatternStep::field("resources")],
            &[spec, containers, PatternStep::Any, PatternStep::field("resizePolicy")],
        ]);
        let set = FieldSet::of_fields(&[
            &["spec"],
            &["spec", "containers", "a", "resources", "limits"],
            &["spec", "containers", "a", "resizePolicy"],
            &["spec", "containers", "a", "image"],
            &["status"],
        ]);
        let filtered = FieldSet::of_fields(&[
            &["spec"],
            &["spec", "containers", "a", "resources", "limits"],
            &["spec", "containers", "a", "resizePolicy"],
        ]);
        assert_eq!(FieldFilter::Only(pattern).apply(set), filtered);
    }
}
