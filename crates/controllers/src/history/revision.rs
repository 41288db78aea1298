//! View of a ControllerRevision.

use std::sync::Arc;

use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use k8s_openapi::api::apps::v1::ControllerRevision as WholeRevision;
use serde::Deserialize;

use super::snapshot::Snapshot;
use crate::pod_control::index_by_controller;
use crate::view::ObjectView;

/// Maximum length of the name before the hash (`ControllerRevisionName` in Kubernetes' `pkg/controller/history`).
const MAX_PREFIX: usize = 223;

/// A revision of a set's template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ControllerRevision {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) data: Snapshot,
    /// Position in the history.
    pub(crate) revision: i64,
}

impl View for ControllerRevision {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for ControllerRevision {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

impl ControllerRevision {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name()
    }
}

/// The informer of all revisions, of every kind of set.
pub(super) fn revisions(manager: &mut Manager) -> Informer<ControllerRevision> {
    let revisions: Informer<ControllerRevision> = manager.informer(Selection::of::<WholeRevision>());
    index_by_controller(revisions.store());
    revisions
}

/// Sorts oldest first. Revisions with the same number are ordered by creation.
pub(super) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|one, other| {
        let created = |revision: &ControllerRevision| revision.metadata.creation_timestamp;
        (one.revision, created(one), one.name()).cmp(&(other.revision, created(other), other.name()))
    });
}

/// Name of a revision.
pub(crate) fn name(set: &str, hash: &str) -> String {
    let prefix = &set[..set.floor_char_boundary(MAX_PREFIX)];
    format!("{prefix}-{hash}")
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A revision of this number whose pods run `image`.
    pub(in super::super) fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
        let template = json!({"$patch": "replace", "spec": {"image": image}});
        let object = json!({
            "metadata": {"name": name, "namespace": "n", "uid": name},
            "data": {"spec": {"template": template}},
            "revision": number,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn revisions_sort_by_number_and_creation() {
        let mut all = [revision("c", 2, "x"), revision("b", 1, "x"), revision("a", 2, "x")];
        sort(&mut all);
        assert_eq!(all.map(|revision| revision.name().to_owned()), ["b", "a", "c"]);
        assert_eq!(name(&"a".repeat(240), "h").len(), 225);
    }
}
