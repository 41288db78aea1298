//! Fields that a resource or subresource does not let its writers change.
//!
//! Writing an object does not touch its status, and writing the status touches nothing else:
//! what the server resets anyway must not be owned by whoever happened to send it.

use super::field_set::{FieldNode, FieldSet};
use super::path_element::PathElement;

/// Which fields count.
#[derive(Clone, Debug)]
pub enum FieldFilter {
    /// All but these and what lies below them.
    Except(FieldSet),
    /// Only what lies on or below these.
    Only(PathPattern),
}

/// Paths, with steps that match anything; a tree.
#[derive(Clone, Debug, Default)]
pub struct PathPattern {
    /// Without branches, all below matches.
    branches: Vec<(PatternStep, PathPattern)>,
}

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternStep {
    /// This one.
    Element(PathElement),
    /// Any.
    Any,
}

impl PatternStep {
    /// The step to a field.
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
    /// Matches whatever lies on or below one of these paths.
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

    fn keep(&self, set: FieldSet) -> FieldSet {
        if self.branches.is_empty() {
            return set;
        }
        let nodes = set.into_nodes().into_iter().filter_map(|node| {
            let matching = self.branches.iter().filter(|(step, _)| step.matches(&node.element));
            let kept =
                matching.map(|(_, below)| below.keep(node.children.clone())).reduce(FieldSet::union)?;
            (node.member || !kept.is_empty()).then_some(FieldNode { children: kept, ..node })
        });
        FieldSet::from_nodes(nodes.collect())
    }
}

impl FieldFilter {
    /// Leaves only the fields that count.
    #[must_use]
    pub fn apply(&self, mut set: FieldSet) -> FieldSet {
        match self {
            Self::Except(excluded) => {
                set.remove_subtrees(excluded);
                set
            }
            Self::Only(pattern) => pattern.keep(set),
        }
    }
}

/// What counts at each version of a kind.
#[derive(Clone, Debug, Default)]
pub struct ResetFields {
    by_version: Vec<(Box<str>, FieldFilter)>,
}

impl ResetFields {
    /// All fields count.
    pub const NONE: &'static Self = &Self { by_version: Vec::new() };

    /// Says what counts at a version.
    #[must_use]
    pub fn with(mut self, api_version: &str, filter: FieldFilter) -> Self {
        self.by_version.push((api_version.into(), filter));
        self
    }

    /// What does not count with all that lies below, if anything; none if more is said.
    pub(super) fn excepted(&self, api_version: &str) -> Option<Option<&FieldSet>> {
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
    fn excluded_fields_go_with_all_below() {
        let filter = FieldFilter::Except(FieldSet::of_fields(&[&["status"]]));
        let set = FieldSet::of_fields(&[&["spec", "a"], &["status"], &["status", "b", "c"]]);
        assert_eq!(filter.apply(set), FieldSet::of_fields(&[&["spec", "a"]]));
    }

    #[test]
    fn patterns_keep_what_lies_below() {
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
        let kept = FieldSet::of_fields(&[
            &["spec"],
            &["spec", "containers", "a", "resources", "limits"],
            &["spec", "containers", "a", "resizePolicy"],
        ]);
        assert_eq!(FieldFilter::Only(pattern).apply(set), kept);
    }
}
