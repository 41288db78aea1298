//! A set of fields of an object.
//!
//! It is a tree: each node is one step, says whether the place it leads to is in the set, and
//! holds the places below. A place can be in the set without what is below it, and the
//! reverse: who owns an item of a list need not own all its fields.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

use super::path_element::PathElement;

/// The steps from the root of an object to a place in it.
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
    /// Ascending by element; each is a member or has children.
    nodes: Vec<FieldNode>,
}

/// A step, and what of the set lies there.
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

/// What two sets say of one step.
enum Joined<L, R> {
    Left(L),
    Right(R),
    Both(L, R),
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of these fields.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(*name)).collect());
        }
        set
    }

    /// A set of nodes in any order, without two of the same step.
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

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many fields are in it.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds a field. The whole object is no field: nobody owns it.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, parents)) = path.0.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.descend(element).children;
        }
        set.descend(last).member = true;
    }

    fn descend(&mut self, element: &PathElement) -> &mut FieldNode {
        let at = match self.search(element) {
            Ok(at) => at,
            Err(at) => {
                let node = FieldNode { element: element.clone(), member: false, children: Self::default() };
                self.nodes.insert(at, node);
                at
            }
        };
        &mut self.nodes[at]
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// The node of a step.
    pub(super) fn node(&self, element: &PathElement) -> Option<&FieldNode> {
        self.search(element).ok().map(|at| &self.nodes[at])
    }

    /// The node of a field.
    pub(super) fn field(&self, name: &str) -> Option<&FieldNode> {
        let at = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(other) => (**other).cmp(name),
            _ => Ordering::Greater,
        });
        at.ok().map(|at| &self.nodes[at])
    }

    /// Whether a field is in it.
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

    /// What is in either.
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

    /// What is in any of them. Joining two at a time keeps the cost of many large sets down.
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

    /// What is in both.
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

    /// Whether all of it is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut others = other.nodes.iter().peekable();
        self.nodes.iter().all(|node| {
            while others.next_if(|other| other.element < node.element).is_some() {}
            others.next_if(|other| other.element == node.element).is_some_and(|other| {
                (!node.member || other.member) && node.children.is_subset(&other.children)
            })
        })
    }

    /// Takes out what is in `other`, and nothing below it.
    pub fn remove(&mut self, other: &Self) {
        self.remove_where(other, |node, other| {
            node.member &= !other.member;
            node.children.remove(&other.children);
        });
    }

    /// Takes out what is in `other`, with all that lies below.
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

    /// Changes each node that `other` has too, and drops those that are then empty.
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

    /// Without what has other fields of the set below it.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| FieldNode {
            element: node.element.clone(),
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        });
        Self { nodes: nodes.collect() }
    }

    /// All fields: at each level first those of the level itself, then those below.
    pub fn paths(&self) -> Vec<Path> {
        let mut unlimited = usize::MAX;
        self.paths_within(&mut unlimited)
    }

    /// The first of all fields, as long as their steps together are not more than `steps_left`, which is reduced by them.
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

/// One path on each line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().iter().enumerate() {
            let newline = if at > 0 { "\n" } else { "" };
            write!(f, "{newline}{path}")?;
        }
        Ok(())
    }
}

/// Walks two ascending lists of nodes together.
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
    fn a_parent_and_its_child_are_members_apart() {
        let mut both = set(&["a", "a.b", "c.d"]);
        assert_eq!(both.len(), 3);
        both.remove(&set(&["a"]));
        assert_eq!(both, set(&["a.b", "c.d"]));
        both.remove(&set(&["c"]));
        assert_eq!(both, set(&["a.b", "c.d"]), "a parent says nothing of its child");
        both.remove_subtrees(&set(&["c"]));
        assert_eq!(both, set(&["a.b"]));
        both.remove_subtrees(&set(&["a.b.c"]));
        assert_eq!(both, set(&["a.b"]));
        both.remove(&set(&["a.b"]));
        assert!(both.is_empty() && both.nodes.is_empty());
    }

    #[test]
    fn sets_are_joined() {
        let (left, right) = (set(&["a", "b.c", "b.d", "e"]), set(&["a.x", "b", "b.d", "f"]));
        assert_eq!(left.intersection(&right), set(&["b.d"]));
        assert!(set(&["b.d", "e"]).is_subset(&left) && FieldSet::new().is_subset(&left));
        assert!(!set(&["b"]).is_subset(&left) && !set(&["b.x"]).is_subset(&left) && !left.is_subset(&right));
        assert_eq!(left.union(right), set(&["a", "a.x", "b", "b.c", "b.d", "e", "f"]));
        assert_eq!(set(&["a", "a.b", "c"]).leaves(), set(&["a.b", "c"]));
    }

    #[test]
    fn members_come_before_what_lies_below() {
        let paths: Vec<_> = set(&["a.b", "c", "a.b.c", "b"]).paths().iter().map(Path::to_string).collect();
        assert_eq!(paths, [".b", ".c", ".a.b", ".a.b.c"]);
    }

    #[test]
    fn paths_end_where_the_steps_do() {
        let fields = set(&["a", "a.b", "a.b.c", "a.b.c.d"]);
        let mut steps_left = 6;
        assert_eq!(fields.paths_within(&mut steps_left), set(&["a", "a.b", "a.b.c"]).paths());
        assert_eq!(steps_left, 0);
        let mut steps_left = 5;
        assert_eq!(fields.paths_within(&mut steps_left).len(), 2);
        assert_eq!(steps_left, 0, "shorter paths of later sets are not taken instead");
    }

    #[test]
    fn elements_of_other_kinds_are_found() {
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
