//! Keys of objects in the store: `group/resource/[namespace/]name` within their cluster. Values that only one object
//! can hold have keys of their own, see [`crate::allocation`].

use crate::kind::{Declaration, Scope};

/// Stands for the core group, whose name is empty. No other group can have this name: group names have dots, except
/// for a few old ones.
const CORE: &str = "core";

/// Prefix of all objects of a group.
pub(crate) fn group_prefix(group: &str) -> String {
    let group = if group.is_empty() { CORE } else { group };
    format!("{group}/")
}

/// Prefix of all objects of a kind, or of those in a namespace if it is not empty.
pub(crate) fn prefix(declaration: &Declaration, namespace: &str) -> String {
    let group = declaration.stored_as.as_ref().map_or(&declaration.group, |stored| &stored.group);
    let (group, plural) = (group_prefix(group), &declaration.plural);
    if namespace.is_empty() { format!("{group}{plural}/") } else { format!("{group}{plural}/{namespace}/") }
}

/// Key of one object. The namespace is ignored for cluster-scoped kinds.
pub(crate) fn key(declaration: &Declaration, namespace: &str, name: &str) -> String {
    let namespace = if declaration.scope == Scope::Namespaced { namespace } else { "" };
    let mut key = prefix(declaration, namespace);
    key.push_str(name);
    key
}
