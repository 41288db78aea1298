//! Where objects are stored: `group/resource/[namespace/]name` within their cluster.
//! What only one object can hold has a key of its own, see [`crate::allocation`].

use crate::kind::{Declaration, Scope};

/// Stands for the core group, whose name is empty. No group is called so: they have dots, or
/// are older than that and known.
const CORE: &str = "core";

/// The prefix of all objects of a group.
pub(crate) fn group_prefix(group: &str) -> String {
    let group = if group.is_empty() { CORE } else { group };
    format!("{group}/")
}

/// The prefix of all objects of a kind, or of those of one namespace if it is not empty.
pub(crate) fn prefix(declaration: &Declaration, namespace: &str) -> String {
    let group = declaration.stored_as.as_ref().map_or(&declaration.group, |stored| &stored.group);
    let (group, plural) = (group_prefix(group), &declaration.plural);
    if namespace.is_empty() { format!("{group}{plural}/") } else { format!("{group}{plural}/{namespace}/") }
}

/// The key of one object. The namespace counts only for kinds that have one.
pub(crate) fn key(declaration: &Declaration, namespace: &str, name: &str) -> String {
    let namespace = if declaration.scope == Scope::Namespaced { namespace } else { "" };
    let mut key = prefix(declaration, namespace);
    key.push_str(name);
    key
}
