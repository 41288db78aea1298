//! OpenAPI documents from the types and a list of what is served: one of version 3 for each
//! group and version, and one of version 2 for everything.
//!
//! `kubectl explain` reads the components, client-side apply their merge keys, and validation
//! looks for the `fieldValidation` parameter of PATCH. Documents are made when they are asked
//! for; whoever serves them keeps the bytes or not. Nothing here knows which kinds there are, so
//! kinds may come and go.

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

/// Differs between programs that make different documents of the same subjects; made of the
/// texts and of this module's source when it is built.
pub const REVISION: &str = env!("OPENAPI_REVISION");

/// The version documents have: that of the release we follow.
const RELEASE: &str = "1.36";

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
    /// The kind of its lists.
    pub list_kind: &'a str,
    /// What the document is to say of its objects and lists, by the names of these definitions. None
    /// for built-in types, of which it is known.
    pub definitions: &'a [(String, Value)],
}

impl Resource<'_> {
    /// Whether its objects are of a built-in type.
    fn is_typed(&self) -> bool {
        self.definitions.is_empty()
    }
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

/// What a document of version 3 is about.
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
    /// A group and version and what is served of it.
    Resources(GroupVersion<'a>, &'a [Resource<'a>]),
}

/// The document of version 3 about a subject.
pub fn v3(subject: Subject<'_>) -> Value {
    document(subject, &Descriptions::load(), true)
}

/// What a subject brings with it.
fn definitions(subject: Subject<'_>) -> impl Iterator<Item = &(String, Value)> {
    let resources = match subject {
        Subject::Resources(_, resources) => resources,
        _ => &[],
    };
    resources.iter().flat_map(|resource| resource.definitions)
}

/// The document of version 2, which is about everything, as it grows.
pub struct V2 {
    descriptions: Descriptions,
    merged: swagger::Merged,
}

impl V2 {
    /// A document about nothing.
    #[expect(clippy::new_without_default, reason = "expanding all descriptions is not what a default does")]
    pub fn new() -> Self {
        Self { descriptions: Descriptions::load(), merged: swagger::Merged::default() }
    }

    /// Adds a subject. Earlier ones come first where their order is told.
    pub fn add(&mut self, subject: Subject<'_>) {
        self.merged.add(document(subject, &self.descriptions, false));
        for (name, definition) in definitions(subject) {
            self.merged.define(name, definition);
        }
    }

    /// The document.
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
    // Documents of custom kinds are made apart in upstream, and say so.
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

/// A schema that is another one, by its full name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An object of the pairs that have a value.
fn object<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Map<String, Value> {
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
