//! Who has pods, and what a pod of its template looks like.

use coracle_meta::name::object_dns_subdomain;
use coracle_runtime::informer::{ObjectMetadata, OwnerReference, PartialObject};
use coracle_runtime::{ObjectKey, Objects, ReadYourWrites, Reference, StaleCache, Written};
use serde_json::{Map, Value, json};

use crate::refusal;
use crate::view::PodTemplate;

/// A kind of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

impl OwnerKind {
    /// Whether a reference is to an owner of this kind, in any version.
    pub(crate) fn is_of(&self, reference: &OwnerReference) -> bool {
        let group =
            |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        *reference.kind == *self.kind && group(&reference.api_version) == group(self.api_version)
    }
}

/// An object that has pods or other objects of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) kind: OwnerKind,
    pub(crate) metadata: &'a ObjectMetadata,
}

impl Owner<'_> {
    /// What events about it point to.
    pub(crate) fn reference(&self) -> Reference {
        Reference::to(self.kind.api_version, self.kind.kind, self.metadata)
    }

    /// What stands in the metadata of its objects.
    pub(crate) fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.kind.api_version.into(),
            kind: self.kind.kind.into(),
            name: self.metadata.name().into(),
            uid: self.metadata.uid().into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Whether it lives, by the server's word: what is known may be old, and what an owner that is gone makes or
    /// takes on is collected.
    pub(crate) async fn is_still_there(&self, owners: &Objects) -> kube::Result<bool> {
        let fresh: Option<PartialObject> = owners.get(self.key).await?;
        let same = |fresh: &PartialObject| fresh.metadata.uid() == self.metadata.uid();
        Ok(fresh.is_some_and(|fresh| same(&fresh) && !fresh.metadata.is_terminating()))
    }

    /// Makes sure that it lives. Whoever looks after one that does not waits until it knows, before it decides again.
    pub(crate) async fn confirm<E: From<kube::Error> + From<StaleCache>>(
        &self,
        owners: &Objects,
        writes: &ReadYourWrites,
    ) -> Result<(), E> {
        if self.is_still_there(owners).await? {
            return Ok(());
        }
        writes.note_outdated(self.key, self.metadata.resource_version());
        Err(StaleCache.into())
    }

    /// Takes note of what became of a change of itself, which was known at `version`: what was written is waited for,
    /// and so is whatever made it old.
    pub(crate) fn note(&self, writes: &ReadYourWrites, version: &str, written: &kube::Result<Written>) {
        match written {
            Ok(written) => writes.note(self.key, &written.metadata.resource_version),
            Err(error) if refusal::is_outdated(error) => writes.note_outdated(self.key, version),
            Err(_) => {}
        }
    }

    /// The key of one of its objects.
    pub(crate) fn beside(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.key.cluster().clone(), self.key.namespace(), name)
    }
}

/// A pod of a template, with a name for the server to make. Who wants it otherwise changes what comes back.
pub(crate) fn pod_from_template(owner: &Owner<'_>, template: &PodTemplate) -> Value {
    let mut template = template.to_value();
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer_mut(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.take());
        }
    }
    metadata.insert("generateName".to_owned(), name_prefix(owner.metadata.name()).into());
    metadata.insert("namespace".to_owned(), owner.metadata.namespace().into());
    metadata.insert("ownerReferences".to_owned(), json!([owner.owner_reference()]));
    let spec = template.get_mut("spec").map(Value::take).unwrap_or_default();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The name of the owner and a dash, unless that is too long.
fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if object_dns_subdomain(&prefix, true).is_empty() { prefix } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    #[test]
    fn a_pod_has_what_the_template_says_and_knows_its_owner() {
        let metadata: ObjectMetadata =
            serde_json::from_value(json!({"name": "r", "namespace": "n", "uid": "u"})).unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "r");
        let kind = OwnerKind { api_version: "apps/v1", kind: "ReplicaSet" };
        let owner = Owner { key: &key, kind, metadata: &metadata };
        let template = json!({
            "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}, "finalizers": ["e/f"], "name": "no"},
            "spec": {"containers": [{"name": "c"}]},
        });
        let pod = pod_from_template(&owner, &serde_json::from_value(template).unwrap());
        let reference = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "r-", "namespace": "n", "labels": {"app": "x"},
                "annotations": {"a": "b"}, "finalizers": ["e/f"], "ownerReferences": [reference]},
            "spec": {"containers": [{"name": "c"}]},
        });
        assert_eq!(pod, expected);
        assert_eq!(name_prefix(&"a".repeat(254)), "a".repeat(254));
    }

    #[test]
    fn kinds_are_told_apart_by_their_group() {
        let kind = OwnerKind { api_version: "apps/v1", kind: "ReplicaSet" };
        let reference = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            ..OwnerReference::default()
        };
        assert!(
            kind.is_of(&reference("apps/v1", "ReplicaSet"))
                && kind.is_of(&reference("apps/v2", "ReplicaSet"))
        );
        assert!(!kind.is_of(&reference("v1", "ReplicaSet")) && !kind.is_of(&reference("apps/v1", "Job")));
    }
}
