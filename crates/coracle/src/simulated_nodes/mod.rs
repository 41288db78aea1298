//! Simulated nodes of a server: provisioned when it starts, run by the manager of the controllers.

mod rule_warnings;

use coracle_apiserver::{ApiServer, Fence, LogLine, SimulatedNodes};
use coracle_base::Clock;
use coracle_fake_node::{FakeNodes, NodeSummary, Surplus};
use coracle_runtime::Manager;
pub(crate) use rule_warnings::RuleWarnings;
use serde_json::Value;

use crate::in_process;
use crate::resource_metrics::Measurements;

/// Creates the nodes of the config and deletes those of an earlier start, before controllers and scheduler
/// list nodes.
pub(crate) async fn provision(
    server: &ApiServer,
    nodes: Option<&FakeNodes>,
    shares_store: bool,
    clock: &Clock,
) -> kube::Result<NodeSummary> {
    let client = in_process::client(server.clone(), in_process::FAKE_NODES);
    let surplus = if nodes.is_none() && shares_store { Surplus::Keep } else { Surplus::Delete };
    let summary = coracle_fake_node::provision(&client, nodes, surplus, clock).await?;
    if summary.deleted > 0 {
        let (deleted, simulated) = (summary.deleted, summary.simulated);
        tracing::info!(deleted, simulated, "deleted simulated nodes of an earlier start");
    }
    Ok(summary)
}

/// Logs of simulated containers.
#[derive(Debug)]
pub(crate) struct SimulatedLogs;

impl SimulatedNodes for SimulatedLogs {
    fn is_simulated(&self, node: &Value) -> bool {
        coracle_fake_node::is_simulated(node)
    }

    fn log(
        &self,
        node: &Value,
        pod: &Value,
        container: &str,
        previous: bool,
    ) -> Result<Vec<LogLine>, String> {
        let lines =
            coracle_fake_node::log(node, pod, container, previous).map_err(|error| error.to_string())?;
        Ok(lines.into_iter().map(|line| LogLine { at: line.at, text: line.text }).collect())
    }
}

/// The controllers of simulated nodes.
#[derive(Clone)]
pub(crate) struct Simulation {
    server: ApiServer,
    clock: Clock,
    measurements: Measurements,
}

impl Simulation {
    pub(crate) fn new(server: &ApiServer, clock: Clock, measurements: Measurements) -> Self {
        Self { server: server.clone(), clock, measurements }
    }

    /// Registers them with the controllers' manager, so that an idle manager means idle pods, too.
    pub(crate) fn register(&self, manager: &mut Manager, fence: Option<&Fence>) {
        let client = in_process::fenced_client(self.server.clone(), in_process::FAKE_NODES, fence.cloned());
        self.measurements.include(coracle_fake_node::register(manager, &client, &self.clock));
    }
}
