//! The graph of owner references in one cluster.
//!
//! Every watched object has a node, and so has every owner that is referenced but was not observed. The latter is
//! unseen until it is observed, or looked up on the server. The node of a deleted owner stays as long as there are
//! references to it, so that it is not looked up again.
//!
//! Objects to be checked after a change are queued in `dirty`, once each.

mod change;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::identity::{Identity, Interner, Type, Uid};
use super::object::{FOREGROUND, ORPHAN, Object};

/// Index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NodeId(u32);

/// Number of a kind, by group and plural without version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(pub(crate) u32);

/// Source of nodes that were not observed.
const NO_SOURCE: Source = Source(u32::MAX);

/// Existence of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    Observed,
    /// Only referenced by others. It does not exist under these identities.
    Unseen(Vec<Arc<Identity>>),
    Gone,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Identity as referenced; shared with the owner if it is equal.
    pub(crate) identity: Arc<Identity>,
    /// `blockOwnerDeletion` of the reference.
    pub(crate) blocks: bool,
}

/// Deletion state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeletionState {
    /// The object is terminating.
    pub(crate) terminating: bool,
    /// It has the finalizer for foreground deletion.
    pub(crate) foreground: bool,
    /// It has the finalizer for orphaning.
    pub(crate) orphan: bool,
}

impl DeletionState {
    fn of(object: &Object) -> Self {
        Self {
            terminating: object.is_terminating(),
            foreground: object.has_finalizer(FOREGROUND),
            orphan: object.has_finalizer(ORPHAN),
        }
    }

    /// True if it waits until its dependents are gone.
    pub(crate) fn deletes_dependents(self) -> bool {
        self.terminating && self.foreground
    }

    /// True if it waits until its dependents are orphaned.
    pub(crate) fn orphans_dependents(self) -> bool {
        self.terminating && self.orphan
    }
}

struct Node {
    identity: Arc<Identity>,
    owners: Box<[Owner]>,
    dependents: BTreeSet<NodeId>,
    existence: Existence,
    deletion: DeletionState,
    source: Source,
    /// List in which the object was last seen, or after which it was added.
    epoch: u32,
    /// True if it is in `dirty`.
    dirty: bool,
}

/// State of the owner that a reference points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The owner exists.
    Solid,
    /// The owner does not exist.
    Dangling,
    /// The owner waits for its dependents to be deleted.
    Waiting,
    /// The server must be queried.
    Unknown,
    /// Like `Unknown`; an object with this uid exists in another namespace, where it cannot be the owner.
    OtherNamespace,
}

/// A change of the objects of a kind in a namespace. Consecutive equal changes are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) source: Source,
    pub(crate) namespace: Arc<str>,
    /// Number of remaining objects after deletions; `None` for additions and modifications.
    pub(crate) left: Option<u32>,
}

/// A copy of a node.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) identity: Arc<Identity>,
    pub(crate) existence: Existence,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) deletion: DeletionState,
    pub(crate) has_dependents: bool,
}

/// The graph of a cluster.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    by_uid: HashMap<Uid, NodeId>,
    types: Interner<Type>,
    namespaces: Interner<str>,
    /// Number of objects by kind and namespace.
    counts: HashMap<(Source, Arc<str>), u32>,
    dirty: VecDeque<NodeId>,
    /// Changes since the last [`take_changes`](Self::take_changes).
    changes: Vec<Changed>,
}

impl Graph {
    /// An object; `None` if it was neither observed nor referenced.
    pub(crate) fn item(&self, uid: &Uid) -> Option<Item> {
        let node = self.node(uid)?;
        Some(Item {
            identity: Arc::clone(&node.identity),
            existence: node.existence.clone(),
            owners: node.owners.clone(),
            deletion: node.deletion,
            has_dependents: !node.dependents.is_empty(),
        })
    }

    /// Objects that reference this one as their owner.
    pub(crate) fn dependents(&self, uid: &Uid) -> Vec<Arc<Identity>> {
        self.dependents_of(uid).map(|node| Arc::clone(&node.identity)).collect()
    }

    /// True if a dependent of the object waits for dependents of its own.
    pub(crate) fn has_waiting_dependent(&self, uid: &Uid) -> bool {
        self.dependents_of(uid).any(|node| node.deletion.deletes_dependents())
    }

    /// All identities under which an unseen owner is referenced, in the namespaces of the dependents, except those
    /// known to be absent.
    pub(crate) fn names_of_unseen(&self, uid: &Uid) -> Vec<Arc<Identity>> {
        let mut names: Vec<Arc<Identity>> = Vec::new();
        let Some(Existence::Unseen(absent)) = self.node(uid).map(|node| &node.existence) else {
            return names;
        };
        let is_absent = |named: &Identity| {
            absent.iter().any(|one| one.is_alike(named) && one.is_reachable_from(&named.namespace))
        };
        for node in self.dependents_of(uid) {
            for owner in node.owners.iter().filter(|owner| owner.identity.uid == *uid) {
                let named =
                    Identity { namespace: Arc::clone(&node.identity.namespace), ..(*owner.identity).clone() };
                if !is_absent(&named) && !names.iter().any(|known| **known == named) {
                    names.push(Arc::new(named));
                }
            }
        }
        names
    }

    /// Classifies a reference of an object in `namespace` to this owner.
    pub(crate) fn classify(&self, namespace: &str, named: &Identity) -> Class {
        let Some(node) = self.node(&named.uid) else { return Class::Unknown };
        match &node.existence {
            Existence::Gone => Class::Dangling,
            Existence::Unseen(absent) => {
                let is_it =
                    |absent: &Arc<Identity>| absent.is_alike(named) && absent.is_reachable_from(namespace);
                if absent.iter().any(is_it) { Class::Dangling } else { Class::Unknown }
            }
            Existence::Observed if !node.identity.is_reachable_from(namespace) => Class::OtherNamespace,
            Existence::Observed if !node.identity.is_meant(named, namespace) => Class::Unknown,
            Existence::Observed if node.deletion.deletes_dependents() => Class::Waiting,
            Existence::Observed => Class::Solid,
        }
    }

    /// Number of objects of a kind in a namespace.
    pub(crate) fn count(&self, source: Source, namespace: &str) -> u32 {
        self.counts.get(&(source, Arc::from(namespace))).copied().unwrap_or_default()
    }

    /// True if an object matches the reference, whatever its uid.
    pub(crate) fn has_named(&self, named: &Identity) -> bool {
        let is_it = |node: &Node| {
            node.existence == Existence::Observed && node.identity.is_meant(named, &named.namespace)
        };
        self.nodes.iter().flatten().any(is_it)
    }

    /// True if there are no nodes and no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_uid.is_empty() && self.changes.is_empty()
    }

    fn node(&self, uid: &Uid) -> Option<&Node> {
        self.get(*self.by_uid.get(uid)?)
    }

    fn dependents_of(&self, uid: &Uid) -> impl Iterator<Item = &Node> {
        self.node(uid).into_iter().flat_map(|node| &node.dependents).filter_map(|id| self.get(*id))
    }

    fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes[id.0 as usize].as_ref()
    }

    fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes[id.0 as usize].as_mut()
    }
}

impl std::ops::Index<NodeId> for Graph {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        self.get(id).expect("ids in the graph are of nodes that are there")
    }
}

impl std::ops::IndexMut<NodeId> for Graph {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        self.get_mut(id).expect("ids in the graph are of nodes that are there")
    }
}
