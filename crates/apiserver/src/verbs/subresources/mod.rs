//! Parts of objects whose own kind is another than that of the object, and things done to objects.

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
    /// Does what is asked of a part.
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

    /// The body, which is of the part's kind and of the path's namespace. Returns it with what the
    /// client should be warned of.
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

    /// An object of the path's namespace, or of none.
    async fn find(&self, kind: &dyn Kind, name: &str) -> Result<Value, Refusal> {
        let object = self.cluster.get(kind, &self.path.namespace, name, None).await?;
        negotiate::tree(&object.json)
    }

    /// An object of the same namespace, if there is one.
    async fn find_existing(&self, kind: &dyn Kind, name: &str) -> Result<Option<Value>, Refusal> {
        match self.cluster.get(kind, &self.path.namespace, name, None).await {
            Ok(object) => negotiate::tree(&object.json).map(Some),
            Err(coracle_registry::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A kind that is always there.
fn known(group: &str, version: &str, plural: &str) -> Result<&'static dyn Kind, Refusal> {
    catalog::find(group, version, plural).ok_or_else(Refusal::not_found)
}

/// A refusal because of the state of something that is named in an unusual way.
fn conflict(group: &'static str, resource: &'static str, name: &str, reason: String) -> Refusal {
    let resource = GroupResource { group: group.into(), resource: resource.into() };
    Status::conflict(&resource, name, reason).into()
}
