//! Desired slices, and the writes that create them.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_base::metrics::Counters;
use coracle_runtime::informer::{Labels, ObjectMetadata, OwnerReference};
use coracle_runtime::{ObjectKey, Objects, ReadYourWrites, Written};
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};

use crate::api_error;
use crate::view::{AddressType, Endpoint, EndpointPort, EndpointSlice};

/// Maximum length of an object name.
const MAX_NAME: usize = 253;

/// A desired slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// The slice to replace; `None` for a new one.
    pub(crate) existing: Option<Arc<EndpointSlice>>,
    pub(crate) labels: Labels,
    pub(crate) annotations: Labels,
    pub(crate) address_type: AddressType,
    pub(crate) ports: Vec<EndpointPort>,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Changes to the slices of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceChanges {
    pub(crate) create: Vec<Draft>,
    /// All of these replace an existing slice.
    pub(crate) update: Vec<Draft>,
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
}

impl SliceChanges {
    /// Number of changed slices.
    pub(crate) fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Turns pairs of a deletion and a creation with the same address type into updates, where `may` allows it: one
    /// write less, and names stay.
    pub(crate) fn recycle(&mut self, may: impl Fn(&EndpointSlice) -> bool) {
        let mut create = Vec::new();
        for mut draft in self.create.drain(..) {
            let fits = |slice: &Arc<EndpointSlice>| slice.address_type == draft.address_type && may(slice);
            match self.delete.iter().position(fits) {
                Some(index) => {
                    draft.existing = Some(self.delete.remove(index));
                    self.update.push(draft);
                }
                None => create.push(draft),
            }
        }
        self.create = create;
    }
}

/// Error of a write, worded like Kubernetes' error because its event contains it.
#[derive(Debug, thiserror::Error)]
#[error("failed to {act}EndpointSlice for {kind} {owner}: {}", api_error::message(.source))]
pub(crate) struct WriteError {
    /// `create `, `update <name> ` or `delete <name> `.
    act: String,
    kind: Box<str>,
    owner: String,
    source: kube::Error,
}

/// Writes the slices of one controller.
pub(crate) struct SliceWriter {
    pub(crate) slices: Objects,
    /// Writes to slices, by service.
    pub(crate) own_writes: ReadYourWrites,
    /// Number of changes by operation.
    pub(crate) changes: Counters<1>,
}

impl SliceWriter {
    /// Applies the changes for `key`, whose slices belong to `owner`.
    pub(crate) async fn apply(
        &self,
        key: &ObjectKey,
        owner: &OwnerReference,
        changes: SliceChanges,
    ) -> Result<(), WriteError> {
        let failed = |act: String| {
            let (kind, owner) = (owner.kind.clone(), format!("{}/{}", key.namespace(), key.name()));
            move |source| WriteError { act, kind, owner, source }
        };
        for draft in &changes.create {
            match self.slices.create::<Written>(key, &draft.body(key, owner)).await {
                Ok(written) => {
                    self.own_writes.note(key, &written.metadata.resource_version);
                    self.changes.with(["create"]).inc();
                }
                // The namespace is terminating: no slice can be created in it.
                Err(error) if api_error::namespace_is_gone_or_terminating(&error) => return Ok(()),
                Err(error) => return Err(failed("create ".to_owned())(error)),
            }
        }
        for draft in &changes.update {
            let Some(slice) = &draft.existing else { continue };
            let at = key_of(key, slice);
            let written = self.slices.replace::<Written>(&at, &draft.body(key, owner)).await;
            let written = written.map_err(failed(format!("update {} ", slice.metadata.name())))?;
            self.own_writes.note(key, &written.metadata.resource_version);
            self.changes.with(["update"]).inc();
        }
        for slice in &changes.delete {
            let at = key_of(key, slice);
            let this_one =
                Preconditions { uid: Some(slice.metadata.uid().to_owned()), resource_version: None };
            let params = DeleteParams::default().preconditions(this_one);
            let deleted = self.slices.delete(&at, &params).await;
            deleted.map_err(failed(format!("delete {} ", slice.metadata.name())))?;
            self.own_writes.note_deleted(key, at, slice.metadata.uid());
            self.changes.with(["delete"]).inc();
        }
        Ok(())
    }
}

fn key_of(beside: &ObjectKey, slice: &EndpointSlice) -> ObjectKey {
    ObjectKey::namespaced(beside.cluster().clone(), beside.namespace(), slice.metadata.name())
}

impl Draft {
    fn body(&self, key: &ObjectKey, owner: &OwnerReference) -> Value {
        let mut metadata = json!({
            "generateName": prefix(key.name()),
            "namespace": key.namespace(),
            "labels": self.labels,
            "annotations": self.annotations,
            "ownerReferences": [owner],
        });
        if let Some(slice) = &self.existing {
            keep_identity(&mut metadata, &slice.metadata, owner);
        }
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": self.address_type,
            "endpoints": self.endpoints,
            "ports": self.ports,
        })
    }
}

/// Metadata that a replaced slice keeps. The resource version makes concurrent writes conflict.
fn keep_identity(metadata: &mut Value, existing: &ObjectMetadata, owner: &OwnerReference) {
    metadata["name"] = existing.name().into();
    metadata["resourceVersion"] = existing.resource_version().into();
    metadata["finalizers"] = json!(existing.finalizers);
    if existing.owner_references.iter().any(|known| known.uid == owner.uid) {
        metadata["ownerReferences"] = json!(existing.owner_references);
    }
}

/// Prefix of slice names.
fn prefix(name: &str) -> String {
    if name.len() < MAX_NAME { format!("{name}-") } else { name.to_owned() }
}

/// Owner reference to the object of the slices.
pub(crate) fn owner(api_version: &str, kind: &str, metadata: &ObjectMetadata) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: metadata.name().into(),
        uid: metadata.uid().into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Merges labels; a label without a value is removed.
pub(crate) fn labels_with<'a>(
    labels: &'a Labels,
    others: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Labels {
    let mut all: BTreeMap<&str, &str> = labels.iter().collect();
    for (key, value) in others {
        match value {
            Some(value) => all.insert(key, value),
            None => all.remove(key),
        };
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    fn slice(name: &str, address_type: &str, owner: &str) -> Arc<EndpointSlice> {
        let owners = json!([{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": owner}]);
        let metadata = json!({"name": name, "resourceVersion": "7", "uid": "x", "ownerReferences": owners,
            "finalizers": ["a/b"]});
        let slice = json!({"metadata": metadata, "addressType": address_type});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    #[test]
    fn recycle_turns_delete_and_create_into_update() {
        let draft = || Draft::default();
        let delete =
            vec![slice("six", "IPv6", "u"), slice("foreign", "IPv4", "v"), slice("mine", "IPv4", "u")];
        let mut changes = SliceChanges { create: vec![draft(), draft()], delete, ..SliceChanges::default() };
        changes.recycle(|slice| &*slice.metadata.owner_references[0].uid == "u");
        assert_eq!(changes.create.len(), 1);
        let updated: Vec<_> = changes.update.iter().filter_map(|draft| draft.existing.as_ref()).collect();
        assert_eq!(updated.iter().map(|slice| slice.metadata.name()).collect::<Vec<_>>(), ["mine"]);
        assert_eq!(changes.delete.len(), 2);
    }

    #[test]
    fn replaced_slice_keeps_its_identity() {
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "s");
        let owner =
            |uid: &str| OwnerReference { uid: uid.into(), kind: "Service".into(), ..Default::default() };
        let fresh = Draft::default().body(&key, &owner("u"));
        assert_eq!(fresh["metadata"]["generateName"], "s-");
        assert_eq!(fresh["metadata"].get("name"), None);
        let draft = Draft { existing: Some(slice("s-abc", "IPv4", "u")), ..Draft::default() };
        let body = draft.body(&key, &owner("u"));
        assert_eq!(
            (&body["metadata"]["name"], &body["metadata"]["resourceVersion"]),
            (&"s-abc".into(), &"7".into())
        );
        assert_eq!(body["metadata"]["finalizers"], json!(["a/b"]));
        assert_eq!(body["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
        let other = draft.body(&key, &owner("w"));
        assert_eq!(other["metadata"]["ownerReferences"][0]["uid"], "w");
        assert_eq!(prefix(&"a".repeat(253)).len(), 253);
    }
}
