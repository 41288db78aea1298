//! Custom kinds come into being and go: the names of a definition are accepted if nobody else has
//! them, the objects of one that is deleted go first, and APIServices tell which versions there are.
//!
//! Upstream does this in its API server, with seven controllers; they are `naming`, `finalizer` and
//! `registration` here.

mod definition;
pub(crate) mod finalizer;
pub(crate) mod naming;
pub(crate) mod registration;

use coracle_runtime::{Informer, Manager, ObjectKey, Objects, Selection};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

pub(crate) use definition::Definition;

/// Who owns what these controllers write, as in upstream, where they are part of the server.
const MANAGER: &str = "kube-apiserver";

/// Definitions in one answer. Many have more than a hundred kilobytes, of which little is kept.
const PAGE: u32 = 16;

/// All definitions, for every controller.
pub(crate) fn informer(manager: &mut Manager) -> Informer<Definition> {
    manager.informer(Selection::of::<CustomResourceDefinition>().in_pages_of(PAGE))
}

/// All definitions, to write them.
fn objects(manager: &Manager) -> Objects {
    Objects::of::<CustomResourceDefinition>(manager.client())
}

/// Changes the status of a definition, and its finalizers. None if it is gone or has changed: then its
/// change brings the key back.
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
