//! View of a quota: its limits, and whether its usage is known.

use coracle_runtime::informer::{Labels, Metadata, View};
use coracle_runtime::{ClusterId, ObjectKey};
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct Quota {
    metadata: Metadata,
    /// Limits by resource.
    pub(super) hard: Labels,
    /// True if its status holds the usage of all limited resources.
    pub(super) is_counted: bool,
}

impl Quota {
    /// Names of the limited resources.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        self.hard.iter().map(|(name, _)| name)
    }

    /// True if it limits the number of objects of any kind.
    pub(super) fn counts_objects(&self) -> bool {
        self.limits().any(|name| name.starts_with("count/"))
    }

    pub(super) fn key(&self, cluster: &ClusterId) -> ObjectKey {
        ObjectKey::namespaced(cluster.clone(), &*self.metadata.namespace, &*self.metadata.name)
    }
}

impl View for Quota {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    hard: Labels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    hard: Labels,
    used: Labels,
}

impl From<Wire> for Quota {
    fn from(Wire { metadata, spec, status }: Wire) -> Self {
        let is_counted = spec.hard.iter().all(|(name, _)| status.used.get(name).is_some());
        let is_counted = is_counted && spec.hard == status.hard;
        Self { metadata, hard: spec.hard, is_counted }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn quota_is_counted_when_its_status_holds_the_usage() {
        let quota = |status: Value| {
            let spec = json!({"hard": {"pods": "5", "count/boats.example.org": "1"}});
            serde_json::from_value::<Quota>(
                json!({"metadata": {"name": "q"}, "spec": spec, "status": status}),
            )
            .unwrap()
        };
        assert!(!quota(json!({})).is_counted);
        let hard = json!({"pods": "5", "count/boats.example.org": "1"});
        assert!(!quota(json!({"hard": hard, "used": {"pods": "0"}})).is_counted);
        let used = json!({"pods": "0", "count/boats.example.org": "1"});
        assert!(quota(json!({"hard": hard, "used": used})).is_counted);
        assert!(!quota(json!({"hard": {"pods": "5"}, "used": used})).is_counted);
        assert!(quota(json!({})).counts_objects());
    }
}
