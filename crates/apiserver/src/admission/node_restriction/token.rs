//! Restrictions on service account tokens that a node requests: their pod and their audience.

use coracle_meta::object::Meta;
use coracle_registry::admission::Operation;
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::{Request, audience, pod};
use crate::authorization::{Attributes, Authorizer, ResourceTarget, Target};

/// The verb that permits a node to request tokens for an audience.
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

pub(super) async fn judge(request: &Request<'_>, authorizer: &dyn Authorizer) -> Result<()> {
    if request.operation() != Operation::Create {
        return Ok(());
    }
    let bound = view::at(request.object, &["spec", "boundObjectRef"]).unwrap_or(&Value::Null);
    let [api_version, kind, name, uid] =
        ["apiVersion", "kind", "name", "uid"].map(|field| view::text(bound, &[field]));
    if [api_version, kind] != ["v1", "Pod"] || name.is_empty() {
        return request.refuse("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return request.refuse("node requested token with a pod binding without a uid");
    }
    let found = request.find(&Pod, request.attributes.write.namespace, name).await?;
    if Meta::of(&found).uid() != uid {
        return request.refuse(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if !pod::is_on(&found, request.node) {
        return request.refuse("node requested token bound to a pod scheduled on a different node");
    }
    judge_audience(request, &found, authorizer).await
}

/// The audience must be named by a volume of the pod, or be permitted by the authorizer.
async fn judge_audience(request: &Request<'_>, pod: &Value, authorizer: &dyn Authorizer) -> Result<()> {
    let audience = match view::items(request.object, &["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return request.refuse("node may only request 0 or 1 audiences"),
    };
    match audience::is_named(request, pod, audience).await {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(reason) => {
            return request.refuse(format!("error validating audience {audience:?}: {reason}"));
        }
    }
    let write = request.attributes.write;
    let target = ResourceTarget {
        version: "v1",
        resource: audience,
        namespace: write.namespace,
        name: request.name(),
        ..ResourceTarget::default()
    };
    let wanted = Attributes { verb: AUDIENCE_VERB, target: Target::Resource(target) };
    let user = &write.requester.name;
    let decision = authorizer.authorize(request.attributes.cluster, write.requester, &wanted).await?;
    match &*decision.evaluation_error {
        _ if decision.allowed => Ok(()),
        "" => request.refuse(format!(
            "audience {audience:?} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        )),
        error => request.refuse(format!(
            "audience {audience:?} not found in pod spec volume, error authorizing {user} to request tokens for this audience: {error}"
        )),
    }
}
