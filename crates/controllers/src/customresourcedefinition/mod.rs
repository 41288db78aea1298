//! Controllers of CustomResourceDefinitions: accept names that are free, delete the objects of deleted definitions,
//! and register versions as APIServices.
//!
//! Kubernetes runs seven such controllers in kube-apiserver; here they are `naming`, `finalizer` and `registration`.

mod definition;
pub(crate) mod finalizer;
pub(crate) mod naming;
pub(crate) mod registration;

use coracle_runtime::{Informer, Manager, ObjectKey, Objects, Selection};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

pub(crate) use definition::Definition;

/// Field manager of these controllers, which are part of kube-apiserver in Kubernetes.
const MANAGER: &str = "kube-apiserver";

/// Page size of lists. Many definitions exceed a hundred kilobytes, of which little is cached.
const PAGE: u32 = 16;

/// The informer of all definitions.
pub(crate) fn informer(manager: &mut Manager) -> Informer<Definition> {
    manager.informer(Selection::of::<CustomResourceDefinition>().in_pages_of(PAGE))
}

/// Typed access to definitions, for writes.
fn objects(manager: &Manager) -> Objects {
    Objects::of::<CustomResourceDefinition>(manager.client())
}

/// Patches the status of a definition, and its finalizers. `None` if it is gone or has changed, in which case its
/// change enqueues the key again.
async fn patch_status(
    definitions: &Objects,
    key: &ObjectKey,
    patch: &Value,
) -> Result<Option<Definition>, kube::Error> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match definitions.patch_subresource(key, "status", &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(None),
        answer => answer.map(Some),
    }
}
