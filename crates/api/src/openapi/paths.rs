//! Paths of resources and their operations.

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use super::operation::{
    ANSWERS, FullKind, META, Operation, STREAMS, TEXTS, body, content, name_of, path_item, plain_get, schema,
};
use super::parameters;
use super::{GroupVersion, Resource, Subresource, reference};

const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Number of patch media types for custom kinds: all but strategic merge patch, which is the last.
const UNTYPED_PATCHES: usize = 3;

/// All paths of a group and version.
pub(super) fn all(
    group_version: GroupVersion<'_>,
    resources: &[Resource<'_>],
    descriptions: &Descriptions,
) -> Value {
    let GroupVersion { group, version } = group_version;
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let mut paths = Paths { group_version, root, all: Map::new(), descriptions };
    if resources.iter().all(Resource::is_typed) {
        paths.discovery();
    }
    for resource in resources {
        paths.resource(resource);
    }
    Value::Object(paths.all)
}

struct Paths<'a> {
    group_version: GroupVersion<'a>,
    root: String,
    all: Map<String, Value>,
    descriptions: &'a Descriptions,
}

impl<'a> Paths<'a> {
    fn discovery(&mut self) {
        let list = reference(&format!("{META}.APIResourceList"));
        let id = format!("get{}APIResources", self.camel());
        let operation = plain_get("get available resources", &id, &self.tag(), &content(ANSWERS, &list));
        self.all.insert(format!("{}/", self.root), operation);
    }

    fn resource(&mut self, resource: &Resource<'a>) {
        let Resource { name, namespaced, .. } = *resource;
        let scope = if namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{}{scope}/{name}", self.root);
        self.insert(&collection, resource.kind, self.collection(resource));
        self.insert(&format!("{collection}/{{name}}"), resource.kind, self.object(resource));
        let has = |verb: &str| resource.verbs.contains(&verb);
        if namespaced && has("list") {
            let everywhere =
                Operation { id: self.id("list", resource, "ForAllNamespaces", false), ..self.list(resource) };
            self.insert(&format!("{}/{name}", self.root), resource.kind, vec![everywhere]);
        }
        // Custom kinds never had the deprecated watch paths.
        if has("watch") && resource.is_typed() {
            self.watches(resource, scope);
        }
        for subresource in resource.subresources {
            let path = format!("{collection}/{{name}}/{}", subresource.name);
            let is_connect = subresource.kind.ends_with("Options");
            if is_connect {
                self.connect(&path, resource, subresource);
            } else {
                self.insert(&path, subresource.kind, self.below(resource, subresource));
            }
        }
    }

    fn collection(&self, resource: &Resource<'a>) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for verb in resource.verbs {
            match *verb {
                "list" => found.push(self.list(resource)),
                "create" => found.push(self.create(resource)),
                "deletecollection" => found.push(self.delete_collection(resource)),
                _ => {}
            }
        }
        found
    }

    fn object(&self, resource: &Resource<'a>) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for verb in resource.verbs {
            let suffix = "";
            match *verb {
                "get" => found.push(self.read(resource, suffix, self.own(resource))),
                "update" => found.push(self.replace(resource, suffix, self.own(resource))),
                "patch" => found.push(self.patch(resource, suffix, self.own(resource))),
                "delete" => found.push(self.delete(resource)),
                _ => {}
            }
        }
        found
    }

    fn below(&self, resource: &Resource<'a>, subresource: &Subresource<'a>) -> Vec<Operation<'a>> {
        let suffix = capital(subresource.name);
        let group_version = GroupVersion { group: subresource.group, version: subresource.version };
        let kind = (group_version, subresource.kind);
        let mut found = Vec::new();
        for verb in subresource.verbs {
            match *verb {
                "get" => found.push(self.read(resource, &suffix, kind)),
                "update" => found.push(self.replace(resource, &suffix, kind)),
                "patch" => found.push(self.patch(resource, &suffix, kind)),
                "create" => found.push(Operation {
                    id: self.id("create", resource, &suffix, true),
                    description: format!("create {} of a {}", subresource.name, resource.kind),
                    kind,
                    body: Some(body(&["*/*"], &schema(kind), true)),
                    content: content(answers(resource), &schema(kind)),
                    ..self.create(resource)
                }),
                _ => {}
            }
        }
        // kube-apiserver describes subresources of custom kinds with the kind of their resource.
        if !resource.is_typed() {
            found.iter_mut().for_each(|operation| operation.kind = self.own(resource));
        }
        found
    }

    fn list(&self, resource: &Resource<'a>) -> Operation<'a> {
        let list = match resource.is_typed() {
            true => reference(&format!("{}List", name_of(self.own(resource)))),
            false => schema((self.group_version, resource.list_kind)),
        };
        Operation {
            method: "get",
            action: "list",
            description: format!("list or watch objects of kind {}", resource.kind),
            id: self.id("list", resource, "", true),
            kind: self.own(resource),
            parameters: parameters::LIST,
            body: None,
            answers: &["200"],
            content: content(
                &[answers(resource), if resource.is_typed() { STREAMS } else { &[] }].concat(),
                &list,
            ),
        }
    }

    fn create(&self, resource: &Resource<'a>) -> Operation<'a> {
        let own = schema(self.own(resource));
        Operation {
            method: "post",
            action: "post",
            description: format!("create {} {}", article(resource.kind), resource.kind),
            id: self.id("create", resource, "", true),
            kind: self.own(resource),
            parameters: parameters::CREATE,
            body: Some(body(bodies(resource), &own, true)),
            answers: &["200", "201", "202"],
            content: content(answers(resource), &own),
        }
    }

    fn read(&self, resource: &Resource<'a>, suffix: &str, kind: FullKind<'a>) -> Operation<'a> {
        // The log of a pod is text, although its kind is Pod.
        let is_log = suffix == "Log";
        let answer = if is_log { json!({ "type": "string" }) } else { schema(kind) };
        let text: &[&str] = if is_log { &["text/plain"] } else { &[] };
        Operation {
            method: "get",
            action: "get",
            description: format!("read {} {}", part(suffix), resource.kind),
            id: self.id("read", resource, suffix, true),
            kind,
            parameters: match resource.is_typed() {
                _ if is_log => parameters::LOG,
                true => &[],
                false => parameters::GET_UNTYPED,
            },
            body: None,
            answers: &["200"],
            content: content(&[text, answers(resource)].concat(), &answer),
        }
    }

    fn replace(&self, resource: &Resource<'a>, suffix: &str, kind: FullKind<'a>) -> Operation<'a> {
        Operation {
            method: "put",
            action: "put",
            description: format!("replace {} {}", part(suffix), resource.kind),
            id: self.id("replace", resource, suffix, true),
            kind,
            parameters: parameters::UPDATE,
            body: Some(body(bodies(resource), &schema(kind), true)),
            answers: &["200", "201"],
            content: content(answers(resource), &schema(kind)),
        }
    }

    fn patch(&self, resource: &Resource<'a>, suffix: &str, kind: FullKind<'a>) -> Operation<'a> {
        Operation {
            method: "patch",
            action: "patch",
            description: format!("partially update {} {}", part(suffix), resource.kind),
            id: self.id("patch", resource, suffix, true),
            kind,
            parameters: parameters::PATCH,
            body: Some(body(patches(resource), &reference(&format!("{META}.Patch")), true)),
            answers: if resource.is_typed() { &["200", "201"] } else { &["200"] },
            content: content(answers(resource), &schema(kind)),
        }
    }

    fn delete(&self, resource: &Resource<'a>) -> Operation<'a> {
        let status = reference(&format!("{META}.Status"));
        let answer = if resource.delete_returns_object { schema(self.own(resource)) } else { status };
        Operation {
            method: "delete",
            action: "delete",
            description: format!("delete {} {}", article(resource.kind), resource.kind),
            id: self.id("delete", resource, "", true),
            kind: self.own(resource),
            parameters: parameters::DELETE,
            body: Some(body(bodies(resource), &reference(&format!("{META}.DeleteOptions")), false)),
            answers: &["200", "202"],
            content: content(answers(resource), &answer),
        }
    }

    fn delete_collection(&self, resource: &Resource<'a>) -> Operation<'a> {
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        Operation {
            action: "deletecollection",
            description: format!("delete collection of {}", resource.kind),
            id: format!("delete{}Collection{scope}{}", self.camel(), resource.kind),
            parameters: if resource.is_typed() { parameters::DELETE_COLLECTION } else { parameters::LIST },
            body: resource
                .is_typed()
                .then(|| body(bodies(resource), &reference(&format!("{META}.DeleteOptions")), false)),
            answers: &["200"],
            content: content(answers(resource), &reference(&format!("{META}.Status"))),
            ..self.delete(resource)
        }
    }

    /// The deprecated watch paths, which `watch=true` on lists has replaced.
    fn watches(&mut self, resource: &Resource<'a>, scope: &str) {
        let event = reference(&format!("{META}.WatchEvent"));
        let watch = |id: String, action: &'static str| Operation {
            action,
            description: match action {
                "watchlist" => format!(
                    "watch individual changes to a list of {}. deprecated: use the 'watch' parameter with a list \
                     operation instead.",
                    resource.kind
                ),
                _ => format!(
                    "watch changes to an object of kind {}. deprecated: use the 'watch' parameter with a list \
                     operation instead, filtered to a single item with the 'fieldSelector' parameter.",
                    resource.kind
                ),
            },
            id,
            content: content(&[ANSWERS, STREAMS].concat(), &event),
            ..self.list(resource)
        };
        let of_list = watch(self.id("watch", resource, "List", true), "watchlist");
        let of_one = watch(self.id("watch", resource, "", true), "watch");
        let everywhere = watch(self.id("watch", resource, "ListForAllNamespaces", false), "watchlist");
        let collection = format!("{}/watch{scope}/{}", self.root, resource.name);
        self.insert(&collection, resource.kind, vec![of_list]);
        if resource.verbs.contains(&"get") {
            self.insert(&format!("{collection}/{{name}}"), resource.kind, vec![of_one]);
        }
        if resource.namespaced {
            self.insert(&format!("{}/watch/{}", self.root, resource.name), resource.kind, vec![everywhere]);
        }
    }

    /// Connect operations, which forward requests.
    fn connect(&mut self, path: &str, resource: &Resource<'a>, subresource: &Subresource<'a>) {
        const METHODS: [(&str, &str, &str); 7] = [
            ("get", "get", "Get"),
            ("create", "post", "Post"),
            ("update", "put", "Put"),
            ("patch", "patch", "Patch"),
            ("delete", "delete", "Delete"),
            ("", "head", "Head"),
            ("", "options", "Options"),
        ];
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        let takes_all = subresource.verbs.contains(&"delete");
        let suffix = capital(subresource.name);
        let operations = |with_path: &str| {
            let served = METHODS.iter().filter(|(verb, ..)| {
                if verb.is_empty() { takes_all } else { subresource.verbs.contains(verb) }
            });
            let operation = |(_, method, name): &(&'static str, &'static str, &'static str)| Operation {
                method,
                action: "connect",
                description: format!(
                    "connect {} requests to {} of {}",
                    name.to_uppercase(),
                    subresource.name,
                    resource.kind
                ),
                id: format!("connect{}{name}{scope}{}{suffix}{with_path}", self.camel(), resource.kind),
                kind: (self.group_version, subresource.kind),
                parameters: parameters::connect(subresource.kind),
                body: None,
                answers: &["200"],
                content: content(&["*/*"], &json!({ "type": "string" })),
            };
            served.map(operation).collect::<Vec<_>>()
        };
        let (plain, with_path) = (operations(""), operations("WithPath"));
        self.insert(path, subresource.kind, plain);
        if takes_all {
            self.insert(&format!("{path}/{{path}}"), subresource.kind, with_path);
        }
    }

    fn insert(&mut self, path: &str, kind: &str, operations: Vec<Operation<'a>>) {
        if !operations.is_empty() {
            let item = path_item(path, kind, &self.tag(), operations, self.descriptions);
            self.all.insert(path.to_owned(), item);
        }
    }

    fn own(&self, resource: &Resource<'a>) -> FullKind<'a> {
        (self.group_version, resource.kind)
    }

    /// The `operationId`, such as `readAppsV1NamespacedDeploymentScale`.
    fn id(&self, verb: &str, resource: &Resource<'_>, suffix: &str, scoped: bool) -> String {
        let scope = if resource.namespaced && scoped { "Namespaced" } else { "" };
        format!("{verb}{}{scope}{}{suffix}", self.camel(), resource.kind)
    }

    /// Group and version in an `operationId`, such as `AppsV1`.
    fn camel(&self) -> String {
        format!("{}{}", capital(&group_name(self.group_version.group)), capital(self.group_version.version))
    }

    fn tag(&self) -> String {
        format!("{}_{}", group_name(self.group_version.group), self.group_version.version)
    }
}

/// A group in names: without dots and without the common suffix of Kubernetes' groups.
pub(super) fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "core".into();
    }
    let mut parts = group.strip_suffix(".k8s.io").unwrap_or(group).split('.');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &capital(part))
}

pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + characters.as_str())
}

fn bodies(resource: &Resource<'_>) -> &'static [&'static str] {
    if resource.is_typed() { &["*/*"] } else { TEXTS }
}

fn answers(resource: &Resource<'_>) -> &'static [&'static str] {
    if resource.is_typed() { ANSWERS } else { TEXTS }
}

fn patches(resource: &Resource<'_>) -> &'static [&'static str] {
    if resource.is_typed() { PATCHES } else { &PATCHES[..UNTYPED_PATCHES] }
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

/// The part of an object in descriptions of operations.
fn part(suffix: &str) -> String {
    if suffix.is_empty() {
        "the specified".into()
    } else {
        format!("{} of the specified", suffix.to_ascii_lowercase())
    }
}
