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
    pub(crate) fn insert(&mut self, index: usize) {
        self.0 |= Self::bit(index);
    }

    pub(crate) fn contains(self, index: usize) -> bool {
        self.0 & Self::bit(index) != 0
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn bit(index: usize) -> u64 {
        debug_assert!(index < MAX_PLUGINS, "the number of plugins is checked when the profile is built");
        1 << (index % MAX_PLUGINS)
    }
}

impl FromIterator<usize> for PluginSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        let mut set = Self::default();
        indexes.into_iter().for_each(|index| set.insert(index));
        set
    }
}

/// An enabled plugin of a profile.
#[derive(Clone)]
pub(crate) struct EnabledPlugin {
    pub(crate) plugin: Arc<dyn Plugin>,
    /// Weight of its scores.
    pub(crate) weight: i64,
}

/// The plugins for the pods that name one scheduler.
pub(crate) struct Profile {
    pub(crate) scheduler_name: Box<str>,
    pub(crate) plugins: Vec<EnabledPlugin>,
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
        let indexes = (0..self.plugins.len()).filter(|index| set.contains(*index));
        let mut names: Vec<_> = indexes.map(|index| self.plugins[index].plugin.name()).collect();
        names.sort_unstable();
        names
    }

    /// The plugins that subscribe to an event type.
    pub(crate) fn subscribers(&self, about: About) -> PluginSet {
        let enabled = self.plugins.iter().enumerate();
        enabled.filter(|(_, enabled)| enabled.plugin.wants(about)).map(|(index, _)| index).collect()
    }

    /// The hint for an unschedulable pod: calls `ask` for the plugins that rejected it.
    pub(crate) fn hint(&self, refusal: Refusal, mut ask: impl FnMut(&dyn Plugin) -> bool) -> Hint {
        let enabled = self.plugins.iter().enumerate();
        let mut hint = Hint::Skip;
        for (index, enabled) in enabled.filter(|(index, _)| refusal.plugins.contains(*index)) {
            if !ask(&*enabled.plugin) {
                continue;
            }
            if refusal.pending.contains(index) {
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
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.plugins.iter().position(|enabled| enabled.plugin.name() == name)
    }

    /// The first plugin whose PreEnqueue holds the pod back. Calls `report` with the result of each plugin
    /// called.
    pub(crate) fn gate(&self, pod: &Pod, mut report: impl FnMut(&'static str, bool)) -> Option<usize> {
        self.plugins.iter().position(|EnabledPlugin { plugin, .. }| {
            let passes = plugin.pre_enqueue(pod);
            report(plugin.name(), passes);
            !passes
        })
    }
}
