//! What can be set.

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

/// The scheduler that pods name which name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// How the scheduler works.
#[derive(Clone)]
pub struct Config {
    /// How pods are scheduled, for each scheduler that they may name. Pods that name another are left to
    /// whoever runs it.
    pub profiles: Vec<ProfileConfig>,
    /// How long a pod waits after it was refused for the first time. Twice as long after each further time,
    pub pod_initial_backoff: Duration,
    /// up to this.
    pub pod_max_backoff: Duration,
    /// How many pods are brought to their nodes at a time. More wait with being scheduled.
    pub max_binding: usize,
    /// Plugins that profiles may have beside those that are built in.
    pub registry: Registry,
    /// In which order pods are scheduled: by priority, if nothing else is said.
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
    /// Whether the scheduler can be started with it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_names()?;
        let handle = nobodys_handle();
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

/// What plugins can do where nothing runs.
pub(crate) fn nobodys_handle() -> Handle {
    Handle {
        waiting: WaitingPods::default(),
        signals: Signals::default(),
        clock: Clock::system(),
        client: None,
        recorder: None,
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No pod would be scheduled.
    #[error("there is no profile")]
    NoProfile,
    /// Pods could not name it.
    #[error("a profile has no scheduler name")]
    Unnamed,
    /// Nobody would know which one a pod means.
    #[error("there are several profiles with scheduler name {0:?}")]
    RepeatedProfile(String),
    /// It is neither built in nor registered.
    #[error("profile {profile:?}: plugin {plugin:?} does not exist")]
    UnknownPlugin {
        /// The scheduler name of the profile.
        profile: String,
        /// What it asked for.
        plugin: String,
    },
    /// Each has its place among at most so many.
    #[error("profile {profile:?} has more than {most} plugins")]
    TooManyPlugins {
        /// The scheduler name of the profile.
        profile: String,
        /// How many it may have.
        most: usize,
    },
    /// Scores would count against what they are for, or not fit into a number.
    #[error("profile {profile:?}: plugin {plugin:?} weighs {weight}, which is not between 0 and {most}")]
    Weight {
        /// The scheduler name of the profile.
        profile: String,
        /// The plugin.
        plugin: String,
        /// What it weighs.
        weight: i64,
        /// What it may weigh.
        most: i64,
    },
    /// The plugin itself says why.
    #[error("profile {profile:?}: initializing plugin {plugin:?}")]
    Plugin {
        /// The scheduler name of the profile.
        profile: String,
        /// The plugin.
        plugin: String,
        /// Why it cannot be made.
        source: PluginError,
    },
}

/// A plugin that a profile has.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// Its name, in the table of those that are built in or in [`Config::registry`].
    pub name: String,
    /// How much its scores count; none for what it weighs by default, which is one.
    pub weight: Option<i64>,
    /// What it is made with.
    pub args: Value,
}

impl PluginConfig {
    /// A plugin as it is by default.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: None, args: Value::Null }
    }

    /// The same with another weight.
    #[must_use]
    pub fn weight(self, weight: i64) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// The same made with these arguments.
    #[must_use]
    pub fn args(self, args: Value) -> Self {
        Self { args, ..self }
    }
}

/// How pods are scheduled that name one scheduler.
#[derive(Clone, Debug)]
pub struct ProfileConfig {
    /// What `spec.schedulerName` of those pods is.
    pub scheduler_name: String,
    /// Plugins of the default profile that are not asked, by name; `*` for all.
    pub disabled: Vec<String>,
    /// Plugins that are asked after those of the default profile, in this order. One that is among those keeps its
    /// place and takes the weight.
    pub enabled: Vec<PluginConfig>,
    /// How much plugins weigh if it is not what they weigh by default, by name.
    pub weights: BTreeMap<String, i64>,
    /// How many of a hundred nodes are compared; none to go by how many there are.
    pub percentage_of_nodes_to_score: Option<usize>,
    /// How much it counts that a pod which is there must have the new one near it.
    pub hard_pod_affinity_weight: i64,
}

impl ProfileConfig {
    /// The default profile under a name.
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
