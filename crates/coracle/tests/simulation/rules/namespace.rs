//! Namespaces and their content.

use super::Rule;
use crate::history::Change;
use crate::scenario::NAMESPACE_PREFIX;
use crate::state::{NAMESPACES, State, is_terminating, name, namespace};

/// Nothing is created in a namespace that does not exist or is being deleted, and no namespace is deleted
/// before its content.
pub(super) struct NamespaceContent;

impl Rule for NamespaceContent {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        if let Some(created) = change.created()
            // Namespaces that every cluster has from the start are not part of the history.
            && namespace(created).starts_with(NAMESPACE_PREFIX)
            && state.get(NAMESPACES, "", namespace(created)).is_none_or(is_terminating)
        {
            return Err(format!("{change} was created although its namespace is terminating or deleted"));
        }
        if change.resource == NAMESPACES && !change.is_there {
            let left = state.within(name(&change.object));
            if let Some((resource, object)) = left.first() {
                return Err(format!("{change} before {resource} {}", name(object)));
            }
        }
        Ok(())
    }
}
