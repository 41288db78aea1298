//! `pods/binding`, and `bindings`, its older path.

use coracle_meta::field::ErrorList;
use coracle_meta::gvk::GroupResource;
use coracle_meta::object::Meta;
use coracle_meta::status::{Reason, Status};
use coracle_registry::admission::Operation;
use coracle_registry::kinds::core::pod::{bind, validate_binding};
use coracle_registry::lifecycle::{Preconditions, Write};
use coracle_registry::{Error, Subject};
use http::{Response, StatusCode};
use serde_json::Value;

use super::super::{ResourceRequest, warn};
use super::known;
use crate::body::ResponseBody;
use crate::status::Refusal;

impl ResourceRequest {
    /// Binds the pod of this name to a node. If the name is empty, the body names the pod.
    pub(in super::super) async fn bind(&self, name: &str) -> Result<Response<ResponseBody>, Refusal> {
        let (binding, mut warnings) = self.posted().await?;
        match self.admit_and_assign(name, &binding, &mut warnings).await {
            Ok(()) => {
                let mut response = self.respond_success(StatusCode::CREATED)?;
                warn(&mut response, &warnings);
                Ok(response)
            }
            Err(refusal) => Err(refusal.warned_of(warnings)),
        }
    }

    async fn admit_and_assign(
        &self,
        name: &str,
        binding: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let meta = Meta::of(binding);
        let name = if name.is_empty() { meta.name() } else { name };
        if name.is_empty() {
            return Err(Refusal::bad_request("Name parameter required."));
        }
        let pods = known("", "v1", "pods")?;
        let api_version = pods.declaration().storage_api_version();
        let write = Write { kind: pods, subresource: "binding", ..self.write(&api_version)? };
        let mut binding = binding.clone();
        warnings.extend(self.cluster.admit(&write, Operation::Create, name, &mut binding).await?);
        if name != Meta::of(&binding).name() {
            return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
        }
        let mut errors = ErrorList::new();
        validate_binding(&binding, &mut errors);
        if !errors.is_empty() {
            // kube-apiserver returns these errors with reason Unknown and not as invalid.
            return Err(Status::failure(Reason::Unknown, errors.to_string()).into());
        }
        self.assign(name, &binding).await
    }

    async fn assign(&self, name: &str, binding: &Value) -> Result<(), Refusal> {
        let pods = known("", "v1", "pods")?;
        let api_version = pods.declaration().storage_api_version();
        let write = Write { kind: pods, subresource: "", ..self.write(&api_version)? };
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let meta = Meta::of(binding);
        let meant = Preconditions { uid: text(meta.uid()), resource_version: text(meta.resource_version()) };
        let now = self.cluster.now().to_string();
        let assign = |pod: &mut Value| {
            bind(pod, binding, &now).map_err(|error| {
                let resource = GroupResource { group: "".into(), resource: "pods/binding".into() };
                let subject = Box::new(Subject { resource, ..Subject::of(pods.declaration(), name) });
                Error::Conflict { subject, reason: error.to_string() }
            })
        };
        self.cluster.rewrite(&write, name, &meant, assign).await?;
        Ok(())
    }
}
