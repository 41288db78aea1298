//! Which plugins decide about a pod, and how much each of them weighs.

use std::fmt;
use std::sync::Arc;

use super::{About, ClusterEvent, Plugin};
use crate::view::Pod;
use crate::world::World;

/// Some of the plugins of a profile, by their place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PluginSet(u64);

impl PluginSet {
    pub(crate) fn insert(&mut self, place: usize) {
        self.0 |= Self::bit(place);
    }

    pub(crate) fn contains(self, place: usize) -> bool {
        self.0 & Self::bit(place) != 0
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A profile has never so many plugins that one has no bit.
    fn bit(place: usize) -> u64 {
        1 << (place % 64)
    }
}

impl FromIterator<usize> for PluginSet {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        let mut set = Self::default();
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

/// A plugin that is asked.
#[derive(Clone)]
pub(crate) struct Enabled {
    pub(crate) plugin: Arc<dyn Plugin>,
    /// How much its scores count.
    pub(crate) weight: i64,
}

/// How pods that name this scheduler are scheduled.
pub(crate) struct Profile {
    pub(crate) scheduler_name: Box<str>,
    pub(crate) plugins: Vec<Enabled>,
    /// How many of a hundred nodes are compared; zero to go by how many there are.
    pub(crate) percentage_of_nodes_to_score: usize,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.plugins.iter().map(|enabled| enabled.plugin.name()).collect();
        f.debug_struct("Profile").field("name", &self.scheduler_name).field("plugins", &names).finish()
    }
}

impl Profile {
    /// The names of some plugins, in alphabetical order.
    pub(crate) fn names(&self, set: PluginSet) -> Vec<&'static str> {
        let places = (0..self.plugins.len()).filter(|place| set.contains(*place));
        let mut names: Vec<_> = places.map(|place| self.plugins[place].plugin.name()).collect();
        names.sort_unstable();
        names
    }

    /// Who wants to know of events of a sort.
    pub(crate) fn wanting(&self, about: About) -> PluginSet {
        let enabled = self.plugins.iter().enumerate();
        enabled.filter(|(_, enabled)| enabled.plugin.wants(about)).map(|(place, _)| place).collect()
    }

    /// Whether an event may have made a pod schedulable that these plugins refused.
    pub(crate) fn hint(&self, world: &World, pod: &Pod, refused_by: PluginSet, event: &ClusterEvent) -> bool {
        let enabled = self.plugins.iter().enumerate();
        let mut refusing = enabled.filter(|(place, _)| refused_by.contains(*place));
        refusing.any(|(_, enabled)| enabled.plugin.hint(world, pod, event))
    }

    /// The first plugin that holds a pod back.
    pub(crate) fn gate(&self, pod: &Pod) -> Option<usize> {
        self.plugins.iter().position(|enabled| !enabled.plugin.pre_enqueue(pod))
    }
}
