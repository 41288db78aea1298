//! Changes of the graph, and the objects that become dirty by them.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_runtime::informer::OwnerReference;

use super::super::identity::{Identity, Type, Uid};
use super::super::object::Object;
use super::{Changed, DeletionState, Existence, Graph, NO_SOURCE, Node, NodeId, Owner, Source};

impl Graph {
    /// Adds or updates an object.
    pub(crate) fn put(&mut self, source: Source, epoch: u32, r#type: &Arc<Type>, object: &Object) {
        let uid = Uid::new(&object.metadata.uid);
        let known = self.by_uid.get(&uid).copied().filter(|id| self[*id].existence == Existence::Observed);
        let was_observed = known.is_some();
        let id = known.unwrap_or_else(|| {
            let identity = self.identify(r#type, uid, object);
            self.observe(source, identity)
        });
        let namespace = Arc::clone(&self[id].identity.namespace);
        self.record_change(Changed { source, namespace, left: None });
        let node = &mut self[id];
        node.epoch = epoch;
        let (old, new) = (node.deletion, DeletionState::of(object));
        node.deletion = new;
        self.set_owners(id, &object.owner_references);
        if new.orphans_dependents() && !(was_observed && old.orphans_dependents()) {
            self.mark(id);
        } else if new.deletes_dependents() && !(was_observed && old.deletes_dependents()) {
            self.mark(id);
            self.mark_dependents(id);
        }
    }

    /// Removes a deleted object.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        if let Some(id) = self.by_uid.get(uid).copied() {
            self.remove_node(id, Existence::Gone);
        }
    }

    /// Removes the objects of a kind that were not listed in `epoch`.
    pub(crate) fn sweep(&mut self, source: Source, epoch: u32) {
        for id in self.of_source(source, |node| node.epoch != epoch) {
            self.remove_node(id, Existence::Gone);
        }
    }

    /// Removes a kind that is no longer watched. Whether its objects still exist is unknown.
    pub(crate) fn forget(&mut self, source: Source) {
        for id in self.of_source(source, |_| true) {
            self.remove_node(id, Existence::Unseen(Vec::new()));
            if self.get(id).is_some() {
                self.mark(id);
            }
        }
    }

    /// Records that no object exists under this identity. Dependents that reference it become dirty.
    pub(crate) fn mark_absent(&mut self, absent: Arc<Identity>) {
        let Some(id) = self.by_uid.get(&absent.uid).copied() else { return };
        let Existence::Unseen(known) = &mut self[id].existence else { return };
        if !known.contains(&absent) {
            known.push(Arc::clone(&absent));
        }
        let means_it = |node: &Node| {
            absent.is_reachable_from(&node.identity.namespace)
                && node
                    .owners
                    .iter()
                    .any(|owner| owner.identity.uid == absent.uid && owner.identity.is_alike(&absent))
        };
        let dependents = self[id].dependents.iter().copied();
        let meant: Vec<_> = dependents.filter(|dependent| means_it(&self[*dependent])).collect();
        meant.into_iter().for_each(|dependent| self.mark(dependent));
    }

    /// Marks all owners that were never observed, and their dependents, because new kinds may be served.
    pub(crate) fn mark_unseen(&mut self) {
        let unseen = |node: &Node| matches!(node.existence, Existence::Unseen(_));
        for id in self.ids(unseen) {
            self.mark(id);
            self.mark_dependents(id);
        }
    }

    /// Marks the dependents that block the deletion of an object. True if there are any.
    pub(crate) fn mark_blocking(&mut self, uid: &Uid) -> bool {
        let Some(id) = self.by_uid.get(uid).copied() else { return false };
        let blocks = |node: &Node| node.owners.iter().any(|owner| owner.blocks && owner.identity.uid == *uid);
        let dependents = self[id].dependents.iter().copied();
        let blocking: Vec<_> = dependents.filter(|dependent| blocks(&self[*dependent])).collect();
        for dependent in &blocking {
            // Its own dependents will enqueue it.
            if !self[*dependent].deletion.deletes_dependents() {
                self.mark(*dependent);
            }
        }
        !blocking.is_empty()
    }

    /// Takes the next dirty object.
    pub(crate) fn next_dirty(&mut self) -> Option<Uid> {
        while let Some(id) = self.dirty.pop_front() {
            if let Some(node) = self.get_mut(id)
                && std::mem::take(&mut node.dirty)
            {
                return Some(node.identity.uid.clone());
            }
        }
        None
    }

    /// Marks an object as dirty again.
    pub(crate) fn mark_again(&mut self, uid: &Uid) {
        if let Some(id) = self.by_uid.get(uid).copied() {
            self.mark(id);
        }
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changes)
    }

    /// The identity of an object, shared with references to it if it is equal.
    fn identify(&mut self, r#type: &Arc<Type>, uid: Uid, object: &Object) -> Arc<Identity> {
        let (namespace, name) = (&*object.metadata.namespace, object.metadata.name.clone());
        let namespace = self.namespaces.intern(namespace, || namespace.into());
        let identity = Identity { uid, r#type: Arc::clone(r#type), namespace, name };
        let known = self.node(&identity.uid).map(|node| &node.identity);
        known.filter(|known| ***known == identity).cloned().unwrap_or_else(|| Arc::new(identity))
    }

    fn insert_unseen(&mut self, identity: Arc<Identity>) -> NodeId {
        let uid = identity.uid.clone();
        let node = Node {
            identity,
            owners: Box::default(),
            dependents: BTreeSet::new(),
            existence: Existence::Unseen(Vec::new()),
            deletion: DeletionState::default(),
            source: NO_SOURCE,
            epoch: 0,
            dirty: false,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            // Four billion nodes would not fit into memory.
            NodeId(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
        });
        self.nodes[id.0 as usize] = Some(node);
        self.by_uid.insert(uid, id);
        id
    }

    /// Adds a node for an observed object, or turns an unseen node into one.
    fn observe(&mut self, source: Source, identity: Arc<Identity>) -> NodeId {
        let known = self.by_uid.get(&identity.uid).copied();
        let id = known.unwrap_or_else(|| self.insert_unseen(Arc::clone(&identity)));
        *self.counts.entry((source, Arc::clone(&identity.namespace))).or_default() += 1;
        let node = &mut self[id];
        node.existence = Existence::Observed;
        node.source = source;
        node.identity = Arc::clone(&identity);
        let mismatched = |node: &Node| {
            let named = node.owners.iter().filter(|owner| owner.identity.uid == identity.uid);
            named.into_iter().any(|owner| !identity.is_meant(&owner.identity, &node.identity.namespace))
        };
        let dependents = self[id].dependents.iter().copied();
        let mismatched: Vec<_> = dependents.filter(|dependent| mismatched(&self[*dependent])).collect();
        mismatched.into_iter().for_each(|dependent| self.mark(dependent));
        id
    }

    fn set_owners(&mut self, id: NodeId, references: &[OwnerReference]) {
        if is_same(&self[id].owners, references) {
            return;
        }
        let old = std::mem::take(&mut self[id].owners);
        let new: Box<[Owner]> = references.iter().map(|reference| self.owner(id, reference)).collect();
        let is_known = |owner: &Owner| old.iter().any(|known| known.identity == owner.identity);
        let added: Vec<_> = new.iter().filter(|owner| !is_known(owner)).cloned().collect();
        self[id].owners = new;
        for owner in &added {
            self.link(id, owner);
        }
        for owner in &old {
            self.unlink(id, owner);
        }
    }

    /// The owner of a reference. Shares the owner's identity if it equals the reference.
    fn owner(&mut self, dependent: NodeId, reference: &OwnerReference) -> Owner {
        let uid = Uid::new(&reference.uid);
        let blocks = reference.block_owner_deletion == Some(true);
        let known = self.node(&uid).map(|node| &node.identity);
        if let Some(known) = known.filter(|known| known.is_named_by(reference)) {
            return Owner { identity: Arc::clone(known), blocks };
        }
        let r#type = Type::new(&reference.api_version, &reference.kind);
        let r#type = self.types.intern(&r#type, || Arc::new(r#type.clone()));
        let namespace = Arc::clone(&self[dependent].identity.namespace);
        let identity = Identity { uid, r#type, namespace, name: reference.name.clone() };
        Owner { identity: Arc::new(identity), blocks }
    }

    /// Adds an object to the dependents of an owner, and marks what may have to be deleted.
    fn link(&mut self, id: NodeId, owner: &Owner) {
        let uid = &owner.identity.uid;
        let owner_id = self.by_uid.get(uid).copied();
        let owner_id = owner_id.unwrap_or_else(|| self.insert_unseen(Arc::clone(&owner.identity)));
        self[owner_id].dependents.insert(id);
        let namespace = Arc::clone(&self[id].identity.namespace);
        let node = &self[owner_id];
        let (mark_owner, mark_dependent) = match &node.existence {
            Existence::Gone => (false, true),
            Existence::Unseen(absent) => (true, !absent.is_empty()),
            Existence::Observed => {
                let meant = node.identity.is_meant(&owner.identity, &namespace);
                (false, !meant || node.deletion.deletes_dependents())
            }
        };
        if mark_owner {
            self.mark(owner_id);
        }
        if mark_dependent {
            self.mark(id);
        }
    }

    /// After a change of its owners, removes an object from the dependents of a former owner. An owner that waits for
    /// it is marked.
    fn unlink(&mut self, id: NodeId, owner: &Owner) {
        let uid = &owner.identity.uid;
        let Some(owner_id) = self.by_uid.get(uid).copied() else { return };
        let mut left = self.get(id).into_iter().flat_map(|node| &*node.owners);
        let still_blocks = left.clone().any(|left| left.identity.uid == *uid && left.blocks);
        if left.all(|left| left.identity.uid != *uid) {
            self[owner_id].dependents.remove(&id);
        }
        let node = &self[owner_id];
        if owner.blocks && !still_blocks && node.deletion.deletes_dependents() {
            self.mark(owner_id);
        }
        let node = &self[owner_id];
        if node.existence != Existence::Observed && node.dependents.is_empty() {
            self.drop_node(owner_id);
        }
    }

    /// Removes an object, or keeps its node for the references to it.
    fn remove_node(&mut self, id: NodeId, left: Existence) {
        let node = &mut self[id];
        let (owners, was_observed) =
            (std::mem::take(&mut node.owners), node.existence == Existence::Observed);
        node.existence = left;
        node.deletion = DeletionState::default();
        let (source, namespace) = (node.source, Arc::clone(&node.identity.namespace));
        node.source = NO_SOURCE;
        if was_observed {
            self.decrement_count(source, namespace);
        }
        for owner in &owners {
            self.unlink(id, owner);
            self.mark_if_waiting(&owner.identity.uid);
        }
        // It may have owned itself.
        let Some(node) = self.get(id) else { return };
        if node.dependents.is_empty() {
            self.drop_node(id);
        } else if node.existence == Existence::Gone {
            self.mark_dependents(id);
        }
    }

    fn decrement_count(&mut self, source: Source, namespace: Arc<str>) {
        let key = (source, Arc::clone(&namespace));
        let left = self.counts.get(&key).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            self.counts.remove(&key);
        } else {
            self.counts.insert(key, left);
        }
        self.record_change(Changed { source, namespace, left: Some(left) });
    }

    /// Consecutive equal changes are merged, because many objects change together.
    fn record_change(&mut self, changed: Changed) {
        match self.changes.last_mut() {
            Some(last) if last.source == changed.source && last.namespace == changed.namespace => {
                last.left = changed.left.or(last.left);
            }
            _ => self.changes.push(changed),
        }
    }

    fn drop_node(&mut self, id: NodeId) {
        if let Some(node) = self.nodes[id.0 as usize].take() {
            self.by_uid.remove(&node.identity.uid);
            self.free.push(id);
        }
    }

    /// Marks a waiting owner, which may have lost its last dependent.
    fn mark_if_waiting(&mut self, uid: &Uid) {
        if let Some(id) = self.by_uid.get(uid).copied()
            && self[id].deletion.deletes_dependents()
        {
            self.mark(id);
        }
    }

    fn mark_dependents(&mut self, id: NodeId) {
        let dependents: Vec<_> = self[id].dependents.iter().copied().collect();
        dependents.into_iter().for_each(|dependent| self.mark(dependent));
    }

    fn mark(&mut self, id: NodeId) {
        let node = &mut self[id];
        if !std::mem::replace(&mut node.dirty, true) {
            self.dirty.push_back(id);
        }
    }

    fn of_source(&self, source: Source, which: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        self.ids(|node| node.source == source && which(node))
    }

    fn ids(&self, which: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        let all = (0..).map(NodeId).zip(&self.nodes);
        all.filter(|(_, node)| node.as_ref().is_some_and(&which)).map(|(id, _)| id).collect()
    }
}

fn is_same(known: &[Owner], references: &[OwnerReference]) -> bool {
    let same = |known: &Owner, reference: &OwnerReference| {
        known.blocks == (reference.block_owner_deletion == Some(true))
            && known.identity.is_named_by(reference)
            && known.identity.uid == Uid::new(&reference.uid)
    };
    known.len() == references.len() && known.iter().zip(references).all(|(known, one)| same(known, one))
}
