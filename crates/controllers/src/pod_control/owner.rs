//! Owners of pods, and pods created from their templates.

use coracle_meta::name::object_dns_subdomain;
use coracle_runtime::informer::{ObjectMetadata, OwnerReference, PartialObject};
use coracle_runtime::{ObjectKey, Objects, ReadYourWrites, Reference, StaleCache, Written};
use serde_json::{Map, Value, json};

use crate::api_error;
use crate::view::PodTemplate;

/// A kind of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

impl OwnerKind {
    /// True if a reference points to an owner of this kind, in any version.
    pub(crate) fn is_of(&self, reference: &OwnerReference) -> bool {
        let group =
            |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        *reference.kind == *self.kind && group(&reference.api_version) == group(self.api_version)
    }
}

/// An object that owns pods or other objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) kind: OwnerKind,
    pub(crate) metadata: &'a ObjectMetadata,
}

impl Owner<'_> {
    /// Reference for events about it.
    pub(crate) fn reference(&self) -> Reference {
        Reference::to(self.kind.api_version, self.kind.kind, self.metadata)
    }

    /// Owner reference for its objects.
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

    /// True if the owner exists on the server and is not terminating. The cache may be stale, and objects that a
    /// deleted owner creates or adopts are garbage collected.
    pub(crate) async fn exists_on_server(&self, owners: &Objects) -> kube::Result<bool> {
        let fresh: Option<PartialObject> = owners.get(self.key).await?;
        let same = |fresh: &PartialObject| fresh.metadata.uid() == self.metadata.uid();
        Ok(fresh.is_some_and(|fresh| same(&fresh) && !fresh.metadata.is_terminating()))
    }

    /// Makes sure that the owner exists. If not, returns an error and delays the next reconcile until the informer
    /// has seen that.
    pub(crate) async fn ensure_exists<E: From<kube::Error> + From<StaleCache>>(
        &self,
        owners: &Objects,
        writes: &ReadYourWrites,
    ) -> Result<(), E> {
        if self.exists_on_server(owners).await? {
            return Ok(());
        }
        writes.note_outdated(self.key, self.metadata.resource_version());
        Err(StaleCache.into())
    }

    /// Notes the result of a write to the owner itself, whose cached version was `version`: the next reconcile waits
    /// for the write, or for the change that made the version outdated.
    pub(crate) fn note(&self, writes: &ReadYourWrites, version: &str, written: &kube::Result<Written>) {
        match written {
            Ok(written) => writes.note(self.key, &written.metadata.resource_version),
            Err(error) if api_error::is_outdated(error) => writes.note_outdated(self.key, version),
            Err(_) => {}
        }
    }

    /// Key of one of its objects, in the same namespace.
    pub(crate) fn namespaced_key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.key.cluster().clone(), self.key.namespace(), name)
    }
}

/// A pod of a template, with a generated name. Callers may modify it.
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

/// The owner's name and a dash, unless that is too long.
fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if object_dns_subdomain(&prefix, true).is_empty() { prefix } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    #[test]
    fn pod_has_template_fields_and_owner_reference() {
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
    fn owner_kinds_are_distinguished_by_group() {
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
