//! Who owns whom in one cluster.
//!
//! Every object that is followed has a node, and so has every owner that somebody names and nobody has
//! seen yet: such a one is unseen until it is seen, or until somebody has asked the server. An owner that is
//! gone stays as long as others name it, so that nobody asks for it again.
//!
//! What has to be looked at after a change is noted in `dirty`, once each.

mod change;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::identity::{Identity, Interner, Type, Uid};
use super::object::{FOREGROUND, ORPHAN, Object};

/// Where a node is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NodeId(u32);

/// Which kind an object was seen as, whatever its version: a number for the group and the plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(pub(crate) u32);

/// Nothing was seen of what has this one.
const NO_SOURCE: Source = Source(u32::MAX);

/// What is known of the existence of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
    Observed,
    /// Only named by others. Under these names, and in these namespaces, there is none.
    Unseen(Vec<Arc<Identity>>),
    Gone,
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// As it is named. Shared with the owner itself if that is its name.
    pub(crate) identity: Arc<Identity>,
    /// Whether the owner waits for who has this reference.
    pub(crate) blocks: bool,
}

/// What is to become of an object and its dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Its deletion has begun.
    pub(crate) going: bool,
    /// Its dependents are to go first.
    pub(crate) foreground: bool,
    /// Its dependents are to stay.
    pub(crate) orphan: bool,
}

impl Fate {
    fn of(object: &Object) -> Self {
        Self {
            going: object.is_going(),
            foreground: object.has_finalizer(FOREGROUND),
            orphan: object.has_finalizer(ORPHAN),
        }
    }

    /// It waits until its dependents are gone.
    pub(crate) fn deletes_dependents(self) -> bool {
        self.going && self.foreground
    }

    /// It waits until its dependents have forgotten it.
    pub(crate) fn orphans_dependents(self) -> bool {
        self.going && self.orphan
    }
}

struct Node {
    identity: Arc<Identity>,
    owners: Box<[Owner]>,
    dependents: BTreeSet<NodeId>,
    existence: Existence,
    fate: Fate,
    source: Source,
    /// The list of its kind in which it was last seen, or since which.
    epoch: u32,
    /// Whether it is in `dirty`.
    dirty: bool,
}

/// What becomes of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The owner is there.
    Solid,
    /// There is no such owner.
    Dangling,
    /// The owner waits for its dependents to go.
    Waiting,
    /// The server has to be asked.
    Unknown,
    /// As `Unknown`, and there is one of that identity in a namespace where it cannot be meant.
    Elsewhere,
}

/// What has happened to the objects of a kind in a namespace. The same again is said once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) source: Source,
    pub(crate) namespace: Arc<str>,
    /// How many are left, if some have gone; none if some have come or changed.
    pub(crate) left: Option<u32>,
}

/// A node as others see it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) identity: Arc<Identity>,
    pub(crate) existence: Existence,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) fate: Fate,
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
    /// How many of a kind there are in a namespace.
    counts: HashMap<(Source, Arc<str>), u32>,
    dirty: VecDeque<NodeId>,
    /// What has changed since somebody asked.
    changes: Vec<Changed>,
}

impl Graph {
    /// One object; none if nobody has seen or named it.
    pub(crate) fn item(&self, uid: &Uid) -> Option<Item> {
        let node = self.node(uid)?;
        Some(Item {
            identity: Arc::clone(&node.identity),
            existence: node.existence.clone(),
            owners: node.owners.clone(),
            fate: node.fate,
            has_dependents: !node.dependents.is_empty(),
        })
    }

    /// Who names an object as an owner.
    pub(crate) fn dependents(&self, uid: &Uid) -> Vec<Arc<Identity>> {
        self.dependents_of(uid).map(|node| Arc::clone(&node.identity)).collect()
    }

    /// Whether one of the dependents of an object waits for dependents of its own.
    pub(crate) fn has_waiting_dependent(&self, uid: &Uid) -> bool {
        self.dependents_of(uid).any(|node| node.fate.deletes_dependents())
    }

    /// Everything an object that nobody has seen is called by those who name it, where they are, as far as
    /// it is not known that there is none.
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

    /// What becomes of a reference that names an owner so, by an object in `namespace`.
    pub(crate) fn classify(&self, namespace: &str, named: &Identity) -> Class {
        let Some(node) = self.node(&named.uid) else { return Class::Unknown };
        match &node.existence {
            Existence::Gone => Class::Dangling,
            Existence::Unseen(absent) => {
                let is_it =
                    |absent: &Arc<Identity>| absent.is_alike(named) && absent.is_reachable_from(namespace);
                if absent.iter().any(is_it) { Class::Dangling } else { Class::Unknown }
            }
            Existence::Observed if !node.identity.is_reachable_from(namespace) => Class::Elsewhere,
            Existence::Observed if !node.identity.is_meant(named, namespace) => Class::Unknown,
            Existence::Observed if node.fate.deletes_dependents() => Class::Waiting,
            Existence::Observed => Class::Solid,
        }
    }

    /// How many objects of a kind there are in a namespace.
    pub(crate) fn count(&self, source: Source, namespace: &str) -> u32 {
        self.counts.get(&(source, Arc::from(namespace))).copied().unwrap_or_default()
    }

    /// Whether there is an object that a reference names so, whatever its identity.
    pub(crate) fn has_named(&self, named: &Identity) -> bool {
        let is_it = |node: &Node| {
            node.existence == Existence::Observed && node.identity.is_meant(named, &named.namespace)
        };
        self.nodes.iter().flatten().any(is_it)
    }

    /// Whether nothing is there, and nothing is left to say.
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
