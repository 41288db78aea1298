//! A view of a pod or a pod template for checks.

use coracle_registry::view;
use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// Wraps a pod or a pod template.
    pub(super) fn of(object: &'a Value) -> Self {
        Self { metadata: &object["metadata"], spec: &object["spec"] }
    }

    pub(super) fn at(&self, path: &[&str]) -> Option<&'a Value> {
        view::at(self.spec, path)
    }

    /// All containers: init, regular and ephemeral ones.
    pub(super) fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| view::items(spec, &[list]))
            .map(Container)
    }

    /// The names of containers that satisfy `test`.
    pub(super) fn containers_that(&self, test: impl Fn(&Container<'a>) -> bool) -> Vec<&'a str> {
        self.containers().filter(test).map(|container| container.name()).collect()
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = view::fields(self.metadata, &["annotations"]);
        annotations.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
    }

    /// Returns true if the pod has its own user namespace.
    pub(super) fn has_own_users(&self) -> bool {
        self.at(&["hostUsers"]) == Some(&Value::Bool(false))
    }

    pub(super) fn is_for_windows(&self) -> bool {
        view::text(self.spec, &["os", "name"]) == "windows"
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a>(pub(super) &'a Value);

impl<'a> Container<'a> {
    pub(super) fn name(&self) -> &'a str {
        view::text(self.0, &["name"])
    }

    /// A field of the security context.
    pub(super) fn security(&self, field: &str) -> Option<&'a Value> {
        view::at(self.0, &["securityContext", field])
    }
}

/// Formats `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    quoted.join(", ")
}

/// Returns the singular or the plural.
pub(super) fn counted<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// Formats `container "a"`, or `containers "a", "b"`.
pub(super) fn named_containers(names: &[&str]) -> String {
    format!("{} {}", counted(names.len(), "container", "containers"), quoted(names))
}

/// Names the pod, its containers, or both as those that set a field. None if neither does.
pub(super) fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(named_containers(containers)),
        (true, false) => Some(format!("pod and {}", named_containers(containers))),
    }
}
