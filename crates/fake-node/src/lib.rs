//! Simulated nodes: their leases are renewed, and the pods bound to them start, become ready, finish, fail,
//! crash, vanish and terminate as annotations configure, at thousands of nodes in one process.
//!
//! Every node with the annotation [`NODE`] is simulated, regardless of its creator; [`create_nodes`] creates
//! many. The state of a pod is a function of its rules and of the time (`lifecycle`), so only the time of its
//! acceptance is kept, and a restarted process continues where it was. Pods and nodes are reported through
//! the API as a kubelet does. `docs/fake-nodes.md` has the rules.
//!
//! Tests and users start them (`coracle up --fake-nodes 100`); real nodes are in `coracle-kubelet`.

mod accepted_pods;
mod command;
mod container_status;
mod duration;
mod lifecycle;
mod logs;
mod node;
mod nodes;
mod options;
mod plan;
mod pods;
mod provision;
mod rule_check;
mod rules;
mod run;
mod status;
mod usage;
mod view;

use coracle_base::Clock;
use coracle_runtime::{Manager, Selection};
use kube::Client;

pub use logs::{LogError, LogLine, is_simulated, log};
pub use options::{FakeNodes, FakeNodesError};
pub use provision::{NodeSummary, Surplus, create_nodes, provision};
pub use rule_check::{RuleScope, check_rules};
pub use usage::{Amounts, FakeUsage, NodeUsage, PodUsage};

/// The annotation that makes a node simulated, if it is `true`.
pub const NODE: &str = "fake.coracle.dev/node";

/// Prefix of all annotations of simulated nodes.
const PREFIX: &str = "fake.coracle.dev/";

/// Registers the controllers of simulated nodes and returns their usage source. `client` writes; the
/// manager's client reads.
pub fn register(manager: &mut Manager, client: &Client, clock: &Clock) -> FakeUsage {
    let nodes = manager.informer(Selection::of::<k8s_openapi::api::core::v1::Node>());
    // Pods without a node are not watched, because there may be many.
    let bound = Selection::of::<k8s_openapi::api::core::v1::Pod>().with_fields("spec.nodeName!=");
    let pods = manager.informer(bound);
    manager.add(nodes::controller(client, clock, &nodes));
    manager.add(pods::controller(client, clock, &nodes, &pods));
    FakeUsage { nodes, pods }
}
