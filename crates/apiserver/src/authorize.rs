//! Who may do what: one question, and whoever answers it.

use coracle_registry::Identity;
use serde::Serialize;

/// Whoever is in this group may do everything, as in upstream.
const MASTERS: &str = "system:masters";

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Such as `create`; of a path, the method in lower case.
    pub verb: &'a str,
    /// With what.
    pub target: Target<'a>,
}

/// With what somebody wants to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// With objects, or parts of them.
    Resource(ResourceTarget<'a>),
    /// With what is at a path and is no object.
    Path(&'a str),
}

/// Objects, or parts of them. Whatever is empty is all there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The collection, such as `pods`.
    pub resource: &'a str,
    /// The part, such as `status`.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The object.
    pub name: &'a str,
}

/// What an authorizer says.
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

/// Decides who may do what. Asked for every request, so it decides from what it has in memory.
pub trait Authorizer: Send + Sync {
    /// Whether somebody may do something.
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision;

    /// What somebody may do in a namespace.
    fn rules(&self, identity: &Identity, namespace: &str) -> Rules;
}

/// As long as there are no roles: administrators may do everything, and others nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct MastersOnly;

impl MastersOnly {
    fn is_master(identity: &Identity) -> bool {
        identity.groups.iter().any(|group| group == MASTERS)
    }
}

impl Authorizer for MastersOnly {
    fn authorize(&self, identity: &Identity, _attributes: &Attributes<'_>) -> Decision {
        Decision { allowed: Self::is_master(identity), ..Decision::default() }
    }

    fn rules(&self, identity: &Identity, _namespace: &str) -> Rules {
        if !Self::is_master(identity) {
            return Rules::default();
        }
        let all = || vec!["*".to_owned()];
        Rules {
            resource_rules: vec![ResourceRule {
                verbs: all(),
                api_groups: all(),
                resources: all(),
                resource_names: Vec::new(),
            }],
            non_resource_rules: vec![NonResourceRule { verbs: all(), non_resource_urls: all() }],
            ..Rules::default()
        }
    }
}
