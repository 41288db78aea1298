//! OpenAPI documents from the types and a list of served resources: one v3 document for each group and version, and
//! one v2 document for everything.
//!
//! `kubectl explain` reads the components, client-side apply their merge keys, and kubectl looks for the
//! `fieldValidation` parameter of PATCH before it relies on server-side validation. Documents are built on demand;
//! caching is up to the caller. This module has no list of kinds, so custom kinds may come and go.

mod components;
mod descriptions;
mod gnostic;
mod operation;
mod parameters;
mod paths;
mod swagger;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use descriptions::Descriptions;
use operation::{ANSWERS, META, content, plain_get};

pub use gnostic::{encode_v2, encode_v3};

/// Hash of the build's inputs for documents: the descriptions and the source of this module. It changes when the same
/// subjects give other documents.
pub const REVISION: &str = env!("OPENAPI_REVISION");

/// The `info.version` of documents: the Kubernetes release whose API this is.
const RELEASE: &str = "1.36";

/// A served resource.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// Plural name, as in paths.
    pub name: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Verbs, as in discovery.
    pub verbs: &'a [&'a str],
    /// Whether a deletion returns the object.
    pub delete_returns_object: bool,
    /// Subresources.
    pub subresources: &'a [Subresource<'a>],
    /// Kind of its lists.
    pub list_kind: &'a str,
    /// OpenAPI definitions of its objects and lists, by name. None for built-in types, whose definitions follow from
    /// the type.
    pub definitions: &'a [(String, Value)],
}

impl Resource<'_> {
    /// Whether its objects have a built-in type.
    fn is_typed(&self) -> bool {
        self.definitions.is_empty()
    }
}

/// A served subresource.
#[derive(Clone, Copy, Debug)]
pub struct Subresource<'a> {
    /// Name, as in paths.
    pub name: &'a str,
    /// Group of its kind.
    pub group: &'a str,
    /// Version of its kind.
    pub version: &'a str,
    /// Kind, which may differ from that of the resource.
    pub kind: &'a str,
    /// Verbs, as in discovery.
    pub verbs: &'a [&'a str],
}

/// A group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
}

/// The subject of a v3 document.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/GROUP`: the versions of a group.
    Group(&'a str),
    /// `/version`.
    Version,
    /// A group and version with its served resources.
    Resources(GroupVersion<'a>, &'a [Resource<'a>]),
}

/// The v3 document of a subject.
pub fn v3(subject: Subject<'_>) -> Value {
    document(subject, &Descriptions::load(), true)
}

/// The definitions that a subject brings along.
fn definitions(subject: Subject<'_>) -> impl Iterator<Item = &(String, Value)> {
    let resources = match subject {
        Subject::Resources(_, resources) => resources,
        _ => &[],
    };
    resources.iter().flat_map(|resource| resource.definitions)
}

/// A builder for the v2 document, which describes everything.
pub struct V2 {
    descriptions: Descriptions,
    merged: swagger::Merged,
}

impl V2 {
    /// An empty document.
    #[expect(clippy::new_without_default, reason = "expanding all descriptions is not what a default does")]
    pub fn new() -> Self {
        Self { descriptions: Descriptions::load(), merged: swagger::Merged::default() }
    }

    /// Adds a subject. The order matters: earlier subjects come first in lists.
    pub fn add(&mut self, subject: Subject<'_>) {
        self.merged.add(document(subject, &self.descriptions, false));
        for (name, definition) in definitions(subject) {
            self.merged.define(name, definition);
        }
    }

    /// Builds the document.
    pub fn finish(self) -> Value {
        self.merged.finish()
    }
}

fn document(subject: Subject<'_>, descriptions: &Descriptions, with_definitions: bool) -> Value {
    let paths = paths_of(subject, descriptions);
    let group_version = match subject {
        Subject::Resources(group_version, _) => group_version,
        _ => GroupVersion { group: "", version: "v1" },
    };
    let brought = definitions(subject).filter(|_| with_definitions).cloned().collect();
    let components = components::reachable(&paths, group_version, descriptions, brought);
    // kube-apiserver builds the documents of custom kinds separately, with another title.
    let is_custom = definitions(subject).next().is_some();
    let (title, version) =
        if is_custom { ("Kubernetes CRD Swagger", "v0.1.0") } else { ("Kubernetes", RELEASE) };
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": title, "version": version },
        "paths": paths,
        "components": { "schemas": components },
    });
    if !is_custom {
        document["components"]["securitySchemes"] = json!({ "BearerToken": bearer_token() });
    }
    document
}

fn bearer_token() -> Value {
    json!({
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    })
}

fn paths_of(subject: Subject<'_>, descriptions: &Descriptions) -> Value {
    let answer = |media: &[&str], name: &str| content(media, &reference(name));
    let meta = |name: &str| answer(ANSWERS, &format!("{META}.{name}"));
    let (path, operation) = match subject {
        Subject::Resources(group_version, resources) => {
            return paths::all(group_version, resources, descriptions);
        }
        Subject::CoreVersions => (
            "/api/".to_owned(),
            plain_get("get available API versions", "getCoreAPIVersions", "core", &meta("APIVersions")),
        ),
        Subject::Groups => (
            "/apis/".to_owned(),
            plain_get("get available API versions", "getAPIVersions", "apis", &meta("APIGroupList")),
        ),
        Subject::Group(group) => {
            let name = paths::group_name(group);
            let id = format!("get{}APIGroup", paths::capital(&name));
            let description = "get information of a group";
            (format!("/apis/{group}/"), plain_get(description, &id, &name, &meta("APIGroup")))
        }
        Subject::Version => {
            let info = answer(&["application/json"], "io.k8s.apimachinery.pkg.version.Info");
            let description = "get the version of this server";
            ("/version/".to_owned(), plain_get(description, "getCodeVersion", "version", &info))
        }
    };
    Value::Object(Map::from_iter([(path, operation)]))
}

/// A reference to a schema, by full name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A JSON object of the pairs with a value.
fn object<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
