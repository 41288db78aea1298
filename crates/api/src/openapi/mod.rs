//! OpenAPI v3 documents, one for each group and version, from the types and a list of what is
//! served.
//!
//! `kubectl explain` reads the components, client-side apply their merge keys, and validation
//! looks for the `fieldValidation` parameter of PATCH. Documents are made when they are asked
//! for; whoever serves them keeps the bytes and their hash.

mod components;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

/// What types and fields mean, in words. The types themselves carry none: whoever serves
/// documents says where the words come from.
pub trait Describe {
    /// What a type is, by its full name such as `io.k8s.api.core.v1.Pod`.
    fn of_type(&self, type_name: &str) -> Option<String>;

    /// What a field of a type is.
    fn of_field(&self, type_name: &str, field: &str) -> Option<String>;
}

/// A resource that is served.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// Its plural name, as in paths.
    pub name: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Whether it is in namespaces.
    pub namespaced: bool,
    /// Its verbs, as in discovery.
    pub verbs: &'a [&'a str],
    /// Whether deleting one answers with the object.
    pub delete_returns_object: bool,
    /// What is below it.
    pub subresources: &'a [Subresource<'a>],
}

/// A subresource that is served.
#[derive(Clone, Copy, Debug)]
pub struct Subresource<'a> {
    /// Its name, as in paths.
    pub name: &'a str,
    /// The group of its kind.
    pub group: &'a str,
    /// The version of its kind.
    pub version: &'a str,
    /// Its kind, which need not be that of the resource.
    pub kind: &'a str,
    /// Its verbs, as in discovery.
    pub verbs: &'a [&'a str],
}

/// A group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion<'a> {
    /// The group, empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
}

/// The document of a group and version.
pub fn document(
    group_version: GroupVersion<'_>,
    resources: &[Resource<'_>],
    descriptions: &dyn Describe,
) -> Value {
    let paths = paths::all(group_version, resources);
    let components = components::reachable(&paths, group_version, descriptions);
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "BearerToken": {
                "description": "Bearer Token authentication",
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
            } },
        },
    })
}

/// A schema that is another one, by its full name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An object of the pairs that have a value.
fn object<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
