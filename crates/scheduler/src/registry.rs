//! Plugins of embedding programs, and their factories.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use coracle_runtime::informer::{Changes, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::framework::{Handle, Plugin};
use crate::run::Message;

/// Error of a plugin factory.
pub type PluginError = Box<dyn Error + Send + Sync>;

type Factory = dyn Fn(&mut PluginContext<'_>) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync;

/// Plugin factories by name. Profiles enable them with [`ProfileConfig::enabled`].
///
/// ```
/// use std::sync::Arc;
///
/// use coracle_scheduler::framework::{NodeScore, Plugin, PreScore};
/// use coracle_scheduler::{Config, NodeIndex, NodeInfo, Pod, PluginConfig, ClusterState};
///
/// /// Prefers nodes with short names.
/// struct ShortNames;
///
/// impl Plugin for ShortNames {
///     fn name(&self) -> &'static str {
///         "ShortNames"
///     }
///
///     fn pre_score<'w>(&'w self, _: &'w ClusterState, _: &'w Arc<Pod>, _: &[NodeIndex]) -> PreScore<'w> {
///         PreScore::Score(Box::new(Shortness))
///     }
/// }
///
/// struct Shortness;
///
/// impl NodeScore for Shortness {
///     fn score(&self, info: &NodeInfo) -> i64 {
///         100 - info.node().map_or(100, |node| node.name().len().min(100) as i64)
///     }
/// }
///
/// let mut config = Config::default();
/// config.registry.add("ShortNames", |_| Ok(Arc::new(ShortNames)));
/// config.profiles[0].enabled.push(PluginConfig::new("ShortNames").weight(5));
/// assert!(config.check().is_ok());
/// ```
///
/// [`ProfileConfig::enabled`]: crate::ProfileConfig::enabled
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<String, Arc<Factory>>);

impl Registry {
    /// Registers a plugin factory. It is called for each profile that enables the plugin, whenever the
    /// scheduler starts.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        make: impl Fn(&mut PluginContext<'_>) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync + 'static,
    ) {
        self.0.insert(name.into(), Arc::new(make));
    }

    pub(crate) fn make(
        &self,
        name: &str,
        context: &mut PluginContext<'_>,
    ) -> Option<Result<Arc<dyn Plugin>, PluginError>> {
        self.0.get(name).map(|make| make(context))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Arguments of a plugin factory.
pub struct PluginContext<'a> {
    pub(crate) profile: &'a str,
    pub(crate) args: &'a Value,
    pub(crate) handle: &'a Handle,
    /// None if no scheduler is started, as when a configuration is validated.
    pub(crate) feed: Option<PluginFeed<'a>>,
}

/// Source of the custom events of plugins.
pub(crate) struct PluginFeed<'a> {
    pub(crate) manager: &'a mut Manager,
    pub(crate) sender: &'a mpsc::Sender<Message>,
    /// Informers that must be synced before pods are scheduled.
    pub(crate) following: &'a mut Vec<Changes>,
}

impl PluginFeed<'_> {
    /// Reborrows it for another plugin.
    pub(crate) fn reborrow(&mut self) -> PluginFeed<'_> {
        PluginFeed { manager: self.manager, sender: self.sender, following: self.following }
    }
}

impl PluginContext<'_> {
    /// The name of the profile.
    pub fn profile(&self) -> &str {
        self.profile
    }

    /// The arguments in [`PluginConfig::args`](crate::PluginConfig::args).
    pub fn args(&self) -> &Value {
        self.args
    }

    /// The plugin's access to the running scheduler.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Watches objects of a kind that the scheduler itself does not use. Each change becomes a
    /// [`ClusterEvent::Custom`](crate::framework::ClusterEvent::Custom) with this name for the kind. No pod
    /// is scheduled before the informer is synced. None if no scheduler is started, as in a simulation.
    pub fn start_informers<V: View>(
        &mut self,
        selection: Selection,
        kind: &'static str,
    ) -> Option<Informer<V>> {
        let feed = self.feed.as_mut()?;
        let informer: Informer<V> = feed.manager.informer(selection);
        informer.feed(feed.sender.clone(), move |change| Message::Custom { kind, key: change.key });
        feed.following.push(informer.changes());
        Some(informer)
    }
}

impl fmt::Debug for PluginContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginContext")
            .field("profile", &self.profile)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}
