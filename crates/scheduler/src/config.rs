//! Configuration of the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Clock;
use serde_json::Value;

use crate::framework::{Handle, QueueSort, Signals, WaitingPods};
use crate::plugins::{self, Writers};
use crate::queue::PrioritySort;
use crate::registry::{PluginError, Registry};

/// `spec.schedulerName` of pods that name no scheduler.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// Configuration of the scheduler.
#[derive(Clone)]
pub struct Config {
    /// One profile for each scheduler name. Pods that name another scheduler are ignored.
    pub profiles: Vec<ProfileConfig>,
    /// Backoff after the first failed attempt of a pod. It doubles with each further attempt,
    pub pod_initial_backoff: Duration,
    /// up to this limit.
    pub pod_max_backoff: Duration,
    /// Maximum number of concurrent binding cycles. While it is reached, no further pods are scheduled.
    pub max_binding: usize,
    /// Plugins available to profiles in addition to the built-in ones.
    pub registry: Registry,
    /// Order of the active queue; by priority unless changed.
    pub queue_sort: Arc<dyn QueueSort>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profiles: vec![ProfileConfig::new(DEFAULT_SCHEDULER_NAME)],
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            max_binding: 256,
            registry: Registry::default(),
            queue_sort: Arc::new(PrioritySort),
        }
    }
}

impl Config {
    /// Validates the configuration, including the plugins of every profile.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_names()?;
        let handle = detached_handle();
        for profile in &self.profiles {
            plugins::profile(profile, &self.registry, &Writers::default(), &handle, None)?;
        }
        Ok(())
    }

    pub(crate) fn check_names(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        if self.profiles.is_empty() {
            return Err(ConfigError::NoProfile);
        }
        for profile in &self.profiles {
            if profile.scheduler_name.is_empty() {
                return Err(ConfigError::Unnamed);
            }
            if !names.insert(&profile.scheduler_name) {
                return Err(ConfigError::RepeatedProfile(profile.scheduler_name.clone()));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("profiles", &self.profiles)
            .field("pod_initial_backoff", &self.pod_initial_backoff)
            .field("pod_max_backoff", &self.pod_max_backoff)
            .field("max_binding", &self.max_binding)
            .field("registry", &self.registry)
            .field("queue_sort", &self.queue_sort.name())
            .finish()
    }
}

/// A handle without a running scheduler, a client or a recorder.
pub(crate) fn detached_handle() -> Handle {
    Handle {
        waiting: WaitingPods::default(),
        signals: Signals::default(),
        clock: Clock::system(),
        client: None,
        recorder: None,
    }
}

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no profile, so no pod would be scheduled.
    #[error("no scheduler profile is configured")]
    NoProfile,
    /// A profile has no scheduler name, so no pod could name it.
    #[error("a scheduler profile has no scheduler name")]
    Unnamed,
    /// Two profiles have the same scheduler name.
    #[error("several profiles have the scheduler name {0:?}")]
    RepeatedProfile(String),
    /// A profile enables a plugin that is neither built in nor registered.
    #[error("profile {profile:?}: plugin {plugin:?} does not exist")]
    UnknownPlugin {
        /// The scheduler name of the profile.
        profile: String,
        /// The unknown plugin.
        plugin: String,
    },
    /// A profile has more plugins than a plugin set has bits.
    #[error("profile {profile:?} has more than {most} plugins")]
    TooManyPlugins {
        /// The scheduler name of the profile.
        profile: String,
        /// The maximum.
        most: usize,
    },
    /// The weight of a plugin is negative or could overflow the sum of scores.
    #[error("profile {profile:?}: plugin {plugin:?} has weight {weight}, expected 0 to {most}")]
    Weight {
        /// The scheduler name of the profile.
        profile: String,
        /// The name of the plugin.
        plugin: String,
        /// The configured weight.
        weight: i64,
        /// The maximum.
        most: i64,
    },
    /// The factory of a plugin returned an error.
    #[error("profile {profile:?}: initializing plugin {plugin:?}")]
    Plugin {
        /// The scheduler name of the profile.
        profile: String,
        /// The name of the plugin.
        plugin: String,
        /// The error of the factory.
        source: PluginError,
    },
}

/// An enabled plugin of a profile.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// Its name, either of a built-in plugin or of one in [`Config::registry`].
    pub name: String,
    /// Weight of its scores; none for the default weight, which is 1 for registered plugins.
    pub weight: Option<i64>,
    /// Arguments passed to its factory.
    pub args: Value,
}

impl PluginConfig {
    /// A plugin with default weight and no arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: None, args: Value::Null }
    }

    /// Sets the weight.
    #[must_use]
    pub fn weight(self, weight: i64) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(self, args: Value) -> Self {
        Self { args, ..self }
    }
}

/// Configuration for the pods that name one scheduler.
#[derive(Clone, Debug)]
pub struct ProfileConfig {
    /// The `spec.schedulerName` of those pods.
    pub scheduler_name: String,
    /// Plugins of the default profile to disable, by name; `*` for all.
    pub disabled: Vec<String>,
    /// Plugins that run after those of the default profile, in this order. A plugin of the default profile
    /// keeps its position and takes the weight given here.
    pub enabled: Vec<PluginConfig>,
    /// Weights of plugins that differ from the default, by name.
    pub weights: BTreeMap<String, i64>,
    /// Percentage of nodes to score; none for an adaptive percentage.
    pub percentage_of_nodes_to_score: Option<usize>,
    /// Weight of the required affinity terms of existing pods when an incoming pod matches them.
    pub hard_pod_affinity_weight: i64,
}

impl ProfileConfig {
    /// The default profile with this scheduler name.
    pub fn new(scheduler_name: impl Into<String>) -> Self {
        Self {
            scheduler_name: scheduler_name.into(),
            disabled: Vec::new(),
            enabled: Vec::new(),
            weights: BTreeMap::new(),
            percentage_of_nodes_to_score: None,
            hard_pod_affinity_weight: 1,
        }
    }
}
