//! Node topology: for each label used as a topology key, its values as small integers.
//!
//! Topology spread and inter-pod affinity read the label value of every node for every pod. Here each read
//! is one array access.

use std::collections::HashMap;

use crate::cache::node_info::{NodeIndex, NodeInfo};
use crate::view::Node;

/// Limit of unreferenced columns kept for later pods. Beyond it the least recently used one is dropped; it
/// is rebuilt when it is next used.
const MAX_IDLE_COLUMNS: usize = 64;

/// A node label used as a topology key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ColumnId(usize);

/// A value of a label, valid while at least one node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueId(u32);

impl ValueId {
    /// Index for arrays by value.
    pub(crate) fn slot(self) -> usize {
        self.0 as usize
    }

    /// The value at another index of the same label.
    pub(crate) fn at_slot(self, slot: usize) -> Self {
        Self(u32::try_from(slot).unwrap_or(u32::MAX))
    }
}

#[derive(Debug, Default)]
struct Column {
    key: Box<str>,
    values: HashMap<Box<str>, u32>,
    /// Number of nodes with each value.
    users: Vec<u32>,
    free: Vec<u32>,
    /// The value of each node. Shorter than the number of nodes if the last ones have none: a label that no
    /// node has costs nothing.
    by_node: Vec<Option<ValueId>>,
    /// Number of references.
    references: usize,
    last_used: u64,
}

/// All node labels used as topology keys.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    columns: Vec<Option<Column>>,
    by_key: HashMap<Box<str>, ColumnId>,
    uses: u64,
}

impl Topology {
    /// Returns the column of a label and creates it if needed.
    pub(super) fn ensure(&mut self, key: &str, nodes: &[NodeInfo]) -> ColumnId {
        self.uses += 1;
        let id = self.by_key.get(key).copied().unwrap_or_else(|| self.build(key, nodes));
        if let Some(column) = &mut self.columns[id.0] {
            column.last_used = self.uses;
        }
        id
    }

    /// Like [`Self::ensure`], but keeps the column until it is [released](Self::release).
    pub(super) fn retain(&mut self, key: &str, nodes: &[NodeInfo]) -> ColumnId {
        let id = self.ensure(key, nodes);
        if let Some(column) = &mut self.columns[id.0] {
            column.references += 1;
        }
        id
    }

    pub(super) fn release(&mut self, id: ColumnId) {
        if let Some(column) = &mut self.columns[id.0] {
            column.references = column.references.saturating_sub(1);
        }
    }

    /// The column of a label, if it exists.
    pub(crate) fn column(&self, key: &str) -> Option<ColumnId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn value(&self, column: ColumnId, node: NodeIndex) -> Option<ValueId> {
        *self.columns[column.0].as_ref()?.by_node.get(node.slot())?
    }

    /// Length of an array indexed by value.
    pub(crate) fn width(&self, column: ColumnId) -> usize {
        self.columns[column.0].as_ref().map_or(0, |column| column.users.len())
    }

    /// Updates the values of a node from its labels; none removes the node.
    pub(super) fn set_node(&mut self, index: NodeIndex, node: Option<&Node>) {
        for column in self.columns.iter_mut().flatten() {
            column.set(index, node);
        }
    }

    fn build(&mut self, key: &str, nodes: &[NodeInfo]) -> ColumnId {
        self.drop_idle();
        let mut column = Column { key: key.into(), ..Column::default() };
        for info in nodes {
            column.set(info.index, info.node.as_deref());
        }
        let id = match self.columns.iter().position(Option::is_none) {
            Some(index) => {
                self.columns[index] = Some(column);
                ColumnId(index)
            }
            None => {
                self.columns.push(Some(column));
                ColumnId(self.columns.len() - 1)
            }
        };
        self.by_key.insert(key.into(), id);
        id
    }

    fn drop_idle(&mut self) {
        let idle = || {
            let columns = self.columns.iter().enumerate();
            columns
                .filter_map(|(index, column)| Some((index, column.as_ref()?)))
                .filter(|(_, column)| column.references == 0)
        };
        if idle().count() < MAX_IDLE_COLUMNS {
            return;
        }
        let oldest = idle().min_by_key(|(_, column)| column.last_used).map(|(index, _)| index);
        if let Some(column) = oldest.and_then(|index| self.columns[index].take()) {
            self.by_key.remove(&column.key);
        }
    }
}

impl Column {
    fn set(&mut self, index: NodeIndex, node: Option<&Node>) {
        let slot = index.slot();
        if let Some(old) = self.by_node.get_mut(slot).and_then(Option::take) {
            self.release_value(old);
        }
        let Some(value) = node.and_then(|node| node.labels.get(&self.key)) else { return };
        let id = self.value_id(value);
        self.users[id.slot()] += 1;
        if self.by_node.len() <= slot {
            self.by_node.resize(slot + 1, None);
        }
        self.by_node[slot] = Some(id);
    }

    fn value_id(&mut self, value: &str) -> ValueId {
        if let Some(existing) = self.values.get(value) {
            return ValueId(*existing);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.users.push(0);
            u32::try_from(self.users.len() - 1).unwrap_or(u32::MAX)
        });
        self.values.insert(value.into(), id);
        ValueId(id)
    }

    fn release_value(&mut self, id: ValueId) {
        let users = &mut self.users[id.slot()];
        *users -= 1;
        if *users == 0 {
            self.values.retain(|_, existing| *existing != id.0);
            self.free.push(id.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn info(slot: usize, labels: &[(&str, &str)]) -> NodeInfo {
        let node = Node { labels: labels.iter().copied().collect(), ..Node::default() };
        NodeInfo::at(slot, Arc::new(node))
    }

    #[test]
    fn nodes_with_the_same_label_share_a_value() {
        let nodes =
            [info(0, &[("zone", "a")]), info(1, &[("zone", "b")]), info(2, &[("zone", "a")]), info(3, &[])];
        let mut topology = Topology::default();
        let zone = topology.ensure("zone", &nodes);
        let of = |topology: &Topology, slot| topology.value(zone, NodeIndex::new(slot));
        assert_eq!(of(&topology, 0), of(&topology, 2));
        assert!(of(&topology, 0) != of(&topology, 1) && of(&topology, 3).is_none());
        assert_eq!(topology.width(zone), 2);
        topology.set_node(NodeIndex::new(1), None);
        topology.set_node(NodeIndex::new(3), nodes[1].node.as_deref());
        assert_eq!(topology.width(zone), 2, "the ID of an unused value is reused");
        assert!(of(&topology, 1).is_none() && of(&topology, 3).is_some());
        assert_eq!(topology.column("zone"), Some(zone));
        assert_eq!(topology.column("region"), None);
    }

    #[test]
    fn unreferenced_columns_beyond_the_limit_are_dropped() {
        let mut topology = Topology::default();
        let held = topology.retain("held", &[]);
        for number in 0..3 * MAX_IDLE_COLUMNS {
            topology.ensure(&format!("key-{number}"), &[]);
        }
        assert!(topology.columns.len() <= MAX_IDLE_COLUMNS + 2);
        assert_eq!(topology.column("held"), Some(held));
        topology.release(held);
    }
}
