//! The user on whose behalf a request is executed.

use std::collections::BTreeMap;

/// A user, as established by authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user.
    pub name: String,
    /// UID that distinguishes users with the same name at different times; often empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Additional attributes from authentication.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The server itself, for its own writes.
    pub const fn server() -> Self {
        Self { name: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() }
    }
}
