//! What is kept of a quota: what it limits, and whether it says how much of it is used.

use coracle_runtime::informer::{Labels, Metadata, View};
use coracle_runtime::{ClusterId, ObjectKey};
use serde::Deserialize;

/// A quota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub(crate) struct Quota {
    metadata: Metadata,
    /// Amounts by resource.
    pub(super) hard: Labels,
    /// Whether its status is about the same resources, all of them.
    pub(super) is_settled: bool,
}

impl Quota {
    /// The resources it limits.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        self.hard.iter().map(|(name, _)| name)
    }

    /// Whether it limits objects of any kind by their number.
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
        let is_settled = is_counted && spec.hard == status.hard;
        Self { metadata, hard: spec.hard, is_settled }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_quota_is_settled_when_it_says_what_is_used() {
        let quota = |status: Value| {
            let spec = json!({"hard": {"pods": "5", "count/boats.example.org": "1"}});
            serde_json::from_value::<Quota>(
                json!({"metadata": {"name": "q"}, "spec": spec, "status": status}),
            )
            .unwrap()
        };
        assert!(!quota(json!({})).is_settled);
        let hard = json!({"pods": "5", "count/boats.example.org": "1"});
        assert!(!quota(json!({"hard": hard, "used": {"pods": "0"}})).is_settled);
        let used = json!({"pods": "0", "count/boats.example.org": "1"});
        assert!(quota(json!({"hard": hard, "used": used})).is_settled);
        assert!(!quota(json!({"hard": {"pods": "5"}, "used": used})).is_settled);
        assert!(quota(json!({})).counts_objects());
    }
}
