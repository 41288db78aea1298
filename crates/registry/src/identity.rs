//! On whose behalf something is done.

use std::collections::BTreeMap;

/// A user, as authentication found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user.
    pub name: String,
    /// What tells apart users of the same name at different times; often empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Whatever else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The server itself, for what it writes of its own accord.
    pub const fn server() -> Self {
        Self { name: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() }
    }
}
