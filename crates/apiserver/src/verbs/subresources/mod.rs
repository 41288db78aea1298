//! Subresources whose kind differs from that of the object, such as `scale`, and those that act on it, such as
//! `eviction`.

mod binding;
mod connect;
mod eviction;
mod scale;
mod simulated;
mod token;

use coracle_meta::gvk::GroupResource;
use coracle_meta::object::{MetaMut, ensure_namespace};
use coracle_meta::status::Status;
use coracle_registry::{Error, Kind, Subresource, Verbs, catalog};
use http::Response;
use serde_json::Value;

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::status::Refusal;

impl ResourceRequest {
    /// Handles a request for a subresource.
    pub(super) async fn answer_subresource(
        &self,
        part: &Subresource,
        verb: Verbs,
    ) -> Result<Response<ResponseBody>, Refusal> {
        match &*part.kind {
            "Scale" => self.answer_scale(verb).await,
            "Binding" => self.bind(&self.path.name).await,
            "Eviction" => self.evict().await,
            "TokenRequest" => self.issue_token().await,
            _ => self.connect(&part.name).await,
        }
    }

    /// Decodes the body, an object of the subresource's kind and of the path's namespace. Returns it with the warnings
    /// for the client.
    pub(super) async fn posted(&self) -> Result<(Value, Vec<String>), Refusal> {
        let (mut object, warnings) = self.decoded().await?;
        match self.set_namespace(&mut object) {
            Ok(()) => Ok((object, warnings)),
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    fn set_namespace(&self, object: &mut Value) -> Result<(), Refusal> {
        let no_metadata = || Refusal::bad_request("the object's metadata is not an object");
        ensure_namespace(&mut MetaMut::of(object).ok_or_else(no_metadata)?, &self.path.namespace)
            .map_err(Error::from)?;
        Ok(())
    }

    /// Reads an object in the namespace of the path, or a cluster-scoped one.
    async fn find(&self, kind: &dyn Kind, name: &str) -> Result<Value, Refusal> {
        let object = self.cluster.get(kind, &self.path.namespace, name, None).await?;
        negotiate::tree(&object.json)
    }

    /// Reads an object in the namespace of the path; `None` if it does not exist.
    async fn find_existing(&self, kind: &dyn Kind, name: &str) -> Result<Option<Value>, Refusal> {
        match self.cluster.get(kind, &self.path.namespace, name, None).await {
            Ok(object) => negotiate::tree(&object.json).map(Some),
            Err(coracle_registry::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns a built-in kind.
fn known(group: &str, version: &str, plural: &str) -> Result<&'static dyn Kind, Refusal> {
    catalog::find(group, version, plural).ok_or_else(Refusal::not_found)
}

/// The error 409 Conflict. Its details have the given group and resource, which need not be those of the kind.
fn conflict(group: &'static str, resource: &'static str, name: &str, reason: String) -> Refusal {
    let resource = GroupResource { group: group.into(), resource: resource.into() };
    Status::conflict(&resource, name, reason).into()
}
