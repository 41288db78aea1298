//! No node with a running kubelet is marked unreachable: its kubelet is never away for long enough,
//! whatever the clock says.

use super::Rule;
use crate::history::Change;
use crate::state::{NODES, State, name};

pub(super) struct Nodes;

impl Rule for Nodes {
    fn check(&mut self, change: &Change, _state: &State) -> Result<(), String> {
        let Some(node) = change.now().filter(|_| change.resource == NODES) else { return Ok(()) };
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["status"] == "Unknown") {
            return Err(format!("{} is marked unknown: {}", name(node), node["status"]["conditions"]));
        }
        Ok(())
    }
}
