//! What checks look at: a pod, or the template of pods to come.

use coracle_registry::view;
use serde_json::Value;

/// The metadata and the spec of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// A pod itself, or anything that has the form of one.
    pub(super) fn of(object: &'a Value) -> Self {
        Self { metadata: &object["metadata"], spec: &object["spec"] }
    }

    /// What the spec says at a path.
    pub(super) fn at(&self, path: &[&str]) -> Option<&'a Value> {
        view::at(self.spec, path)
    }

    /// Its containers: those that begin, those that stay, those that look in.
    pub(super) fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| view::items(spec, &[list]))
            .map(Container)
    }

    /// The names of the containers of which something is true.
    pub(super) fn containers_that(&self, test: impl Fn(&Container<'a>) -> bool) -> Vec<&'a str> {
        self.containers().filter(test).map(|container| container.name()).collect()
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = view::fields(self.metadata, &["annotations"]);
        annotations.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// Whether the users in it are not those of the node.
    pub(super) fn has_own_users(&self) -> bool {
        self.at(&["hostUsers"]) == Some(&Value::Bool(false))
    }

    pub(super) fn is_for_windows(&self) -> bool {
        view::text(self.spec, &["os", "name"]) == "windows"
    }
}

/// One container of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a>(pub(super) &'a Value);

impl<'a> Container<'a> {
    pub(super) fn name(&self) -> &'a str {
        view::text(self.0, &["name"])
    }

    /// What its security context says of something.
    pub(super) fn security(&self, field: &str) -> Option<&'a Value> {
        view::at(self.0, &["securityContext", field])
    }
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    quoted.join(", ")
}

/// The word for one or for several.
pub(super) fn counted<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// `container "a"`, or several of them.
pub(super) fn named_containers(names: &[&str]) -> String {
    format!("{} {}", counted(names.len(), "container", "containers"), quoted(names))
}

/// Who says something: the pod as a whole, containers of it, or both. `None` if nobody does.
pub(super) fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(named_containers(containers)),
        (true, false) => Some(format!("pod and {}", named_containers(containers))),
    }
}
