//! Sets of fields of an object.
//!
//! A set is a tree. Each node is one path element; it records whether its path is a member of the
//! set, and its children. A path can be a member without its children, and the reverse: the manager
//! that owns a list item need not own all its fields.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

use super::path_element::PathElement;

/// A path from the root of an object to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl FromIterator<PathElement> for Path {
    fn from_iter<I: IntoIterator<Item = PathElement>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

/// A set of fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Ascending by element; each node is a member or has children.
    nodes: Vec<FieldNode>,
}

/// A path element, and the part of the set below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldNode {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl FieldNode {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// A node present in one or both of two sets.
enum Joined<L, R> {
    Left(L),
    Right(R),
    Both(L, R),
}

impl FieldSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set of fields, given as paths of field names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(*name)).collect());
        }
        set
    }

    /// Creates a set of nodes in any order, with distinct elements.
    pub(super) fn from_nodes(mut nodes: Vec<FieldNode>) -> Self {
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
        }
        Self { nodes }
    }

    pub(super) fn nodes(&self) -> &[FieldNode] {
        &self.nodes
    }

    pub(super) fn into_nodes(self) -> Vec<FieldNode> {
        self.nodes
    }

    pub(super) fn nodes_mut(&mut self) -> &mut [FieldNode] {
        &mut self.nodes
    }

    /// Returns true if the set has no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds a path. Ignores the empty path: the whole object is not a field and has no owner.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, parents)) = path.0.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.descend(element).children;
        }
        set.descend(last).member = true;
    }

    fn descend(&mut self, element: &PathElement) -> &mut FieldNode {
        let index = match self.search(element) {
            Ok(index) => index,
            Err(index) => {
                let node = FieldNode { element: element.clone(), member: false, children: Self::default() };
                self.nodes.insert(index, node);
                index
            }
        };
        &mut self.nodes[index]
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// Returns the child node of an element.
    pub(super) fn node(&self, element: &PathElement) -> Option<&FieldNode> {
        self.search(element).ok().map(|index| &self.nodes[index])
    }

    /// Returns the child node of a field.
    pub(super) fn field(&self, name: &str) -> Option<&FieldNode> {
        let index = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(other) => (**other).cmp(name),
            _ => Ordering::Greater,
        });
        index.ok().map(|index| &self.nodes[index])
    }

    /// Returns true if the path is a member.
    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.node(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.node(last).is_some_and(|node| node.member)
    }

    /// Returns the union of two sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        join(self.nodes, other.nodes, |joined| {
            nodes.push(match joined {
                Joined::Left(node) | Joined::Right(node) => node,
                Joined::Both(left, right) => FieldNode {
                    element: left.element,
                    member: left.member || right.member,
                    children: left.children.union(right.children),
                },
            });
        });
        Self { nodes }
    }

    /// Returns the union of many sets. Merging pairwise keeps the cost of many large sets down.
    pub(super) fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut halves = sets.into_iter();
            sets = Vec::with_capacity(halves.len() / 2 + 1);
            while let Some(left) = halves.next() {
                sets.push(left.union(halves.next().unwrap_or_default()));
            }
        }
        sets.pop().unwrap_or_default()
    }

    /// Returns the intersection of two sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        join(&self.nodes, &other.nodes, |joined| {
            let Joined::Both(left, right) = joined else { return };
            let (member, children) =
                (left.member && right.member, left.children.intersection(&right.children));
            if member || !children.is_empty() {
                nodes.push(FieldNode { element: left.element.clone(), member, children });
            }
        });
        Self { nodes }
    }

    /// Returns true if every member is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut others = other.nodes.iter().peekable();
        self.nodes.iter().all(|node| {
            while others.next_if(|other| other.element < node.element).is_some() {}
            others.next_if(|other| other.element == node.element).is_some_and(|other| {
                (!node.member || other.member) && node.children.is_subset(&other.children)
            })
        })
    }

    /// Removes the members of `other`, but not their descendants.
    pub fn remove(&mut self, other: &Self) {
        self.remove_where(other, |node, other| {
            node.member &= !other.member;
            node.children.remove(&other.children);
        });
    }

    /// Removes the members of `other` with their descendants.
    pub fn remove_subtrees(&mut self, other: &Self) {
        self.remove_where(other, |node, other| {
            if other.member {
                node.member = false;
                node.children = Self::default();
            } else {
                node.children.remove_subtrees(&other.children);
            }
        });
    }

    /// Applies `change` to each node that `other` has too, and drops nodes that become empty.
    fn remove_where(&mut self, other: &Self, change: impl Fn(&mut FieldNode, &FieldNode)) {
        if other.is_empty() {
            return;
        }
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while others.next_if(|other| other.element < node.element).is_some() {}
            if let Some(other) = others.next_if(|other| other.element == node.element) {
                change(node, other);
            }
            !node.is_empty()
        });
    }

    /// Returns the members without members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| FieldNode {
            element: node.element.clone(),
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns all members: at each level first its own, then those below.
    pub fn paths(&self) -> Vec<Path> {
        let mut unlimited = usize::MAX;
        self.paths_within(&mut unlimited)
    }

    /// Returns the first members whose paths together have at most `steps_left` steps, and subtracts these steps.
    pub(super) fn paths_within(&self, steps_left: &mut usize) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths, steps_left);
        paths
    }

    fn collect_paths<'a>(
        &'a self,
        prefix: &mut Vec<&'a PathElement>,
        paths: &mut Vec<Path>,
        steps_left: &mut usize,
    ) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let Some(left) = steps_left.checked_sub(prefix.len() + 1) else {
                *steps_left = 0;
                return;
            };
            *steps_left = left;
            let path = prefix.iter().copied().chain([&node.element]).cloned();
            paths.push(path.collect());
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(&node.element);
            node.children.collect_paths(prefix, paths, steps_left);
            prefix.pop();
        }
    }
}

impl<'a> FromIterator<&'a Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = &'a Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path);
        }
        set
    }
}

/// Prints one path per line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.paths().iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{path}")?;
        }
        Ok(())
    }
}

/// Walks two sorted lists of nodes in parallel.
fn join<N: Borrow<FieldNode>>(
    left: impl IntoIterator<Item = N>,
    right: impl IntoIterator<Item = N>,
    mut visit: impl FnMut(Joined<N, N>),
) {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => left.borrow().element.cmp(&right.borrow().element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let left = if order.is_le() { left.next() } else { None };
        let right = if order.is_ge() { right.next() } else { None };
        match (left, right) {
            (Some(left), Some(right)) => visit(Joined::Both(left, right)),
            (Some(left), None) => visit(Joined::Left(left)),
            (None, Some(right)) => visit(Joined::Right(right)),
            (None, None) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(paths: &[&str]) -> FieldSet {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        FieldSet::of_fields(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn parent_and_child_are_separate_members() {
        let mut both = set(&["a", "a.b", "c.d"]);
        assert_eq!(both.len(), 3);
        both.remove(&set(&["a"]));
        assert_eq!(both, set(&["a.b", "c.d"]));
        both.remove(&set(&["c"]));
        assert_eq!(both, set(&["a.b", "c.d"]), "removing a parent does not remove its child");
        both.remove_subtrees(&set(&["c"]));
        assert_eq!(both, set(&["a.b"]));
        both.remove_subtrees(&set(&["a.b.c"]));
        assert_eq!(both, set(&["a.b"]));
        both.remove(&set(&["a.b"]));
        assert!(both.is_empty() && both.nodes.is_empty());
    }

    #[test]
    fn set_operations_match_expected_results() {
        let (left, right) = (set(&["a", "b.c", "b.d", "e"]), set(&["a.x", "b", "b.d", "f"]));
        assert_eq!(left.intersection(&right), set(&["b.d"]));
        assert!(set(&["b.d", "e"]).is_subset(&left) && FieldSet::new().is_subset(&left));
        assert!(!set(&["b"]).is_subset(&left) && !set(&["b.x"]).is_subset(&left) && !left.is_subset(&right));
        assert_eq!(left.union(right), set(&["a", "a.x", "b", "b.c", "b.d", "e", "f"]));
        assert_eq!(set(&["a", "a.b", "c"]).leaves(), set(&["a.b", "c"]));
    }

    #[test]
    fn paths_lists_members_before_descendants() {
        let paths: Vec<_> = set(&["a.b", "c", "a.b.c", "b"]).paths().iter().map(Path::to_string).collect();
        assert_eq!(paths, [".b", ".c", ".a.b", ".a.b.c"]);
    }

    #[test]
    fn paths_within_limit_ends_before_first_path_that_exceeds_it() {
        let fields = set(&["a", "a.b", "a.b.c", "a.b.c.d"]);
        let mut steps_left = 6;
        assert_eq!(fields.paths_within(&mut steps_left), set(&["a", "a.b", "a.b.c"]).paths());
        assert_eq!(steps_left, 0);
        let mut steps_left = 5;
        assert_eq!(fields.paths_within(&mut steps_left).len(), 2);
        assert_eq!(steps_left, 0, "shorter paths of later sets are not returned instead");
    }

    #[test]
    fn contains_finds_value_elements() {
        let item = PathElement::value(json!(5));
        let path: Path = [PathElement::field("list"), item].into_iter().collect();
        let mut found = set(&["list", "m"]);
        assert!(!found.contains(&path));
        found.insert(&path);
        found.insert(&Path::default());
        assert!(found.contains(&path) && !found.contains(&Path::default()));
        assert!(found.field("m").is_some() && found.field("z").is_none());
        assert_eq!(found.to_string(), ".list\n.m\n.list[=5]");
    }
}
