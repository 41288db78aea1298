//! Namespaces and their content.

use super::Rule;
use crate::history::Moment;
use crate::state::{NAMESPACES, State, is_going, name, namespace};
use crate::story::NAMESPACE_PREFIX;

/// Nothing is created in a namespace that does not exist or is being deleted, and no namespace is deleted
/// before its content.
pub(super) struct Content;

impl Rule for Content {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        if let Some(made) = moment.made()
            // Namespaces that every cluster has from the start are not part of the history.
            && namespace(made).starts_with(NAMESPACE_PREFIX)
            && state.get(NAMESPACES, "", namespace(made)).is_none_or(is_going)
        {
            return Err(format!("{moment} was created although its namespace is going or gone"));
        }
        if moment.resource == NAMESPACES && !moment.is_there {
            let left = state.within(name(&moment.object));
            if let Some((resource, object)) = left.first() {
                return Err(format!("{moment} before {resource} {}", name(object)));
            }
        }
        Ok(())
    }
}
