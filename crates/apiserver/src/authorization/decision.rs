//! The results of authorization: a decision, and the list of a user's permissions.

use serde::Serialize;

/// The decision of an authorizer. If it neither allows nor denies, the authorizer has no opinion and the next one
/// decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The operation is allowed.
    pub allowed: bool,
    /// The operation is denied, whatever later authorizers decide.
    pub denied: bool,
    /// Reason of the decision, for the client.
    pub reason: String,
    /// Errors during the decision.
    pub evaluation_error: String,
}

/// The operations that a user may perform in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Permissions on resources.
    pub resource_rules: Vec<ResourceRule>,
    /// Permissions on non-resource paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// True if the list may lack permissions.
    pub incomplete: bool,
    /// Errors while the rules were collected.
    pub evaluation_error: String,
}

/// A permission on resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Verbs such as `create`; `*` for all.
    pub verbs: Vec<String>,
    /// API groups; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// A permission on non-resource paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NonResourceRule {
    /// HTTP methods in lower case; `*` for all.
    pub verbs: Vec<String>,
    /// Paths; `*` for all.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}
