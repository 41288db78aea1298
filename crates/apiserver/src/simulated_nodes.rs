//! Requests to simulated nodes. They have no kubelet to connect to, so the server answers for them.

use std::fmt;

use coracle_base::Timestamp;
use serde_json::Value;

/// Answers requests to containers of simulated nodes.
pub trait SimulatedNodes: Send + Sync {
    /// Returns true if a node is simulated.
    fn is_simulated(&self, node: &Value) -> bool;

    /// Returns the log of a container of a simulated node; with `previous`, that of its previous run.
    ///
    /// # Errors
    /// If the container has no log; the message is for the client.
    fn log(&self, node: &Value, pod: &Value, container: &str, previous: bool)
    -> Result<Vec<LogLine>, String>;
}

impl fmt::Debug for dyn SimulatedNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedNodes")
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// The line, without its newline.
    pub text: String,
}
