//! Scheduling without a cluster, for benchmarks and what-if questions.

use std::sync::Arc;

use coracle_base::Rng;
use serde_json::Value;

use crate::cluster_state::ClusterState;
use crate::config::{ConfigError, ProfileConfig, detached_handle};
use crate::cycle::{CycleState, Outcome, Trace, schedule};
use crate::framework::Profile;
use crate::plugins::{self, Writers};
use crate::registry::Registry;
use crate::view::{Node, Pod};

/// A simulated cluster of nodes and pods.
///
/// ```
/// use coracle_scheduler::{ProfileConfig, Registry, Simulation};
/// use serde_json::json;
///
/// let mut simulation = Simulation::new(&ProfileConfig::new("default-scheduler"), &Registry::default(), 7)?;
/// let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
/// simulation.set_node(json!({"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}))?;
/// let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": []}});
/// assert_eq!(simulation.schedule(pod)?, Ok("n1".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    profile: Profile,
    state: ClusterState,
    cycle_state: CycleState,
    /// Disabled.
    trace: Trace,
}

impl Simulation {
    /// An empty cluster. The same seed leads to the same selection among nodes with equal scores.
    ///
    /// # Errors
    /// If the profile is invalid.
    pub fn new(profile: &ProfileConfig, registry: &Registry, seed: u64) -> Result<Self, ConfigError> {
        let profile = plugins::profile(profile, registry, &Writers::default(), &detached_handle(), None)?;
        let (cycle_state, trace) = (CycleState::new(Rng::seeded(seed)), Trace::default());
        Ok(Self { profile, state: ClusterState::default(), cycle_state, trace })
    }

    /// Adds or updates a node.
    ///
    /// # Errors
    /// If `node` is not a valid Node.
    pub fn set_node(&mut self, node: Value) -> Result<(), serde_json::Error> {
        let node: Node = serde_json::from_value(node)?;
        self.state.cache.set_node(&Arc::new(node));
        Ok(())
    }

    /// Schedules a pod and places it on its node. The inner error is the message of the pod's condition.
    ///
    /// # Errors
    /// If `pod` is not a valid Pod.
    pub fn schedule(&mut self, pod: Value) -> Result<Result<String, String>, serde_json::Error> {
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod)?);
        Ok(match schedule(&self.profile, &mut self.state, &pod, &mut self.cycle_state, &mut self.trace) {
            Outcome::Fits(node) => {
                self.state.cache.assume(Arc::new(pod.on_node(&node)));
                Ok(node.into())
            }
            Outcome::Refused(diagnosis, _) => Err(diagnosis.to_string()),
            Outcome::NoNodes => Err(crate::run::NO_NODES.to_owned()),
            Outcome::Failed(message) => Err(message),
        })
    }
}
