//! A bound claim keeps its volume, and no volume has two claims.

use super::Rule;
use crate::history::Change;
use crate::state::{CLAIMS, State, VOLUMES, name, namespace, text};

pub(super) struct Volumes;

impl Rule for Volumes {
    fn check(&mut self, change: &Change, _state: &State) -> Result<(), String> {
        let place = match change.resource {
            CLAIMS => "/spec/volumeName",
            VOLUMES => "/spec/claimRef/uid",
            _ => return Ok(()),
        };
        let (Some(old), Some(new)) = (change.old.as_deref(), change.now()) else { return Ok(()) };
        let (before, after) = (text(old, place), text(new, place));
        if before.is_empty() || before == after || old["metadata"]["uid"] != new["metadata"]["uid"] {
            return Ok(());
        }
        Err(format!("{}/{} was bound to {before} and is now bound to {after:?}", namespace(new), name(new)))
    }
}
