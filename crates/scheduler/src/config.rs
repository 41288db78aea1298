//! What can be set.

use std::collections::BTreeMap;
use std::time::Duration;

/// The scheduler that pods name which name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// How the scheduler works.
#[derive(Clone, Debug)]
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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profiles: vec![ProfileConfig::new(DEFAULT_SCHEDULER_NAME)],
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            max_binding: 256,
        }
    }
}

/// How pods are scheduled that name one scheduler.
#[derive(Clone, Debug)]
pub struct ProfileConfig {
    /// What `spec.schedulerName` of those pods is.
    pub scheduler_name: String,
    /// Plugins of the default profile that are not asked, by name.
    pub disabled: Vec<String>,
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
            weights: BTreeMap::new(),
            percentage_of_nodes_to_score: None,
            hard_pod_affinity_weight: 1,
        }
    }
}
