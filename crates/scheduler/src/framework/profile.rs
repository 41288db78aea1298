//! Profiles: the plugins that schedule a pod, and their weights.

use std::fmt;
use std::sync::Arc;

use super::{About, Hint, Plugin};
use crate::queue::Refusal;
use crate::view::Pod;

/// Maximum number of plugins of a profile: each has a bit in a [`PluginSet`].
pub(crate) const MAX_PLUGINS: usize = u64::BITS as usize;

/// A set of plugins of a profile, by their index in it.
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

    fn bit(place: usize) -> u64 {
        debug_assert!(place < MAX_PLUGINS, "a profile has never so many plugins that one has no bit");
        1 << (place % MAX_PLUGINS)
    }
}

impl FromIterator<usize> for PluginSet {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        let mut set = Self::default();
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

/// An enabled plugin of a profile.
#[derive(Clone)]
pub(crate) struct Enabled {
    pub(crate) plugin: Arc<dyn Plugin>,
    /// Weight of its scores.
    pub(crate) weight: i64,
}

/// The plugins for the pods that name one scheduler.
pub(crate) struct Profile {
    pub(crate) scheduler_name: Box<str>,
    pub(crate) plugins: Vec<Enabled>,
    /// Percentage of nodes to score; zero for an adaptive percentage.
    pub(crate) percentage_of_nodes_to_score: usize,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.plugins.iter().map(|enabled| enabled.plugin.name()).collect();
        f.debug_struct("Profile").field("name", &self.scheduler_name).field("plugins", &names).finish()
    }
}

impl Profile {
    /// The names of a set of plugins, in alphabetical order.
    pub(crate) fn names(&self, set: PluginSet) -> Vec<&'static str> {
        let places = (0..self.plugins.len()).filter(|place| set.contains(*place));
        let mut names: Vec<_> = places.map(|place| self.plugins[place].plugin.name()).collect();
        names.sort_unstable();
        names
    }

    /// The plugins that subscribe to an event type.
    pub(crate) fn wanting(&self, about: About) -> PluginSet {
        let enabled = self.plugins.iter().enumerate();
        enabled.filter(|(_, enabled)| enabled.plugin.wants(about)).map(|(place, _)| place).collect()
    }

    /// The hint for an unschedulable pod: calls `ask` for the plugins that rejected it.
    pub(crate) fn hint(&self, refusal: Refusal, mut ask: impl FnMut(&dyn Plugin) -> bool) -> Hint {
        let enabled = self.plugins.iter().enumerate();
        let mut hint = Hint::Skip;
        for (place, enabled) in enabled.filter(|(place, _)| refusal.plugins.contains(*place)) {
            if !ask(&*enabled.plugin) {
                continue;
            }
            if refusal.pending.contains(place) {
                return Hint::Immediately;
            }
            if refusal.pending.is_empty() {
                return Hint::AfterBackoff;
            }
            hint = Hint::AfterBackoff;
        }
        hint
    }

    /// The index of a plugin in the profile.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.plugins.iter().position(|enabled| enabled.plugin.name() == name)
    }

    /// The first plugin whose PreEnqueue holds the pod back. Calls `asked` with the result of each plugin
    /// called.
    pub(crate) fn gate(&self, pod: &Pod, mut asked: impl FnMut(&'static str, bool)) -> Option<usize> {
        self.plugins.iter().position(|Enabled { plugin, .. }| {
            let is_free = plugin.pre_enqueue(pod);
            asked(plugin.name(), is_free);
            !is_free
        })
    }
}
