//! The answer: whether somebody may do something, and all that somebody may do.

use serde::Serialize;

/// What an authorizer says. Who neither allows nor denies has no opinion, and others are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// It may be done.
    pub allowed: bool,
    /// It may not be done, whatever others say.
    pub denied: bool,
    /// Why.
    pub reason: String,
    /// What went wrong while it was decided.
    pub evaluation_error: String,
}

/// What somebody may do in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// With objects.
    pub resource_rules: Vec<ResourceRule>,
    /// With paths.
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Whether there may be more.
    pub incomplete: bool,
    /// What went wrong while it was found out.
    pub evaluation_error: String,
}

/// What may be done with objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    /// Such as `create`; `*` for all.
    pub verbs: Vec<String>,
    /// The API groups; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The collections; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The objects; none for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// What may be done with paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NonResourceRule {
    /// Methods in lower case; `*` for all.
    pub verbs: Vec<String>,
    /// The paths; `*` for all.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}
