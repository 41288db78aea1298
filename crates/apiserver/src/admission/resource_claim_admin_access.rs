//! ResourceClaimAdminAccess: admin access to devices requires a labelled namespace.
//!
//! A ResourceClaim with `adminAccess` gives its pods devices that are in use by others. kube-apiserver checks the label
//! in the strategies of the two kinds (`AuthorizedForAdmin` in `pkg/registry/resource/utils.go`), which can read the
//! namespace; here only admission can. The spec is immutable, so it is checked on create only, and the status when it
//! grants admin access for the first time.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::{Error, Result, Subject, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, nothing_to_say};

const GROUP: &str = "resource.k8s.io";

/// The label of namespaces whose claims may have admin access.
const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

pub(super) struct ResourceClaimAdminAccess;

impl Plugin for ResourceClaimAdminAccess {
    fn name(&self) -> &str {
        "ResourceClaimAdminAccess"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![
            Rule::new(GROUP, "resourceclaims", &[Operation::Create]),
            Rule::new(GROUP, "resourceclaimtemplates", &[Operation::Create]),
            Rule::new(GROUP, "resourceclaims", &[Operation::Update]).of_subresource("status"),
        ]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        match requested_at(attributes, object) {
            None => nothing_to_say(),
            Some(path) => Box::pin(check_namespace(attributes, object, path)),
        }
    }
}

/// The path of the field that requests admin access, unless the object had it before.
fn requested_at(attributes: &Attributes<'_>, object: &Value) -> Option<String> {
    if attributes.write.subresource == "status" {
        let granted =
            |claim| first_granted(view::items(claim, &["status", "allocation", "devices", "results"]));
        let (index, before) = (granted(object)?, attributes.old.and_then(granted));
        return before.is_none().then(|| format!("status.allocation.devices.results[{index}].adminAccess"));
    }
    let in_template = attributes.write.kind.declaration().plural == "resourceclaimtemplates";
    let spec: &[&str] = if in_template { &["spec", "spec"] } else { &["spec"] };
    let requests = view::items(object, &[spec, &["devices", "requests"]].concat());
    let asks = |request: &Value| view::at(request, &["exactly", "adminAccess"]) == Some(&Value::Bool(true));
    let index = requests.iter().position(asks)?;
    // kube-apiserver reports the same path for templates, and omits `exactly`.
    Some(format!("spec.devices.requests[{index}].adminAccess"))
}

fn first_granted(results: &[Value]) -> Option<usize> {
    results.iter().position(|result| result["adminAccess"] == true)
}

async fn check_namespace(attributes: &Attributes<'_>, object: &Value, path: String) -> Result<()> {
    let labels = attributes.cluster.find_labels(&Namespace, "", attributes.write.namespace).await?;
    let label = labels.iter().flatten().find(|(label, _)| label.as_str() == ADMIN_ACCESS_LABEL);
    if label.is_some_and(|(_, value)| value.as_str() == "true") {
        return Ok(());
    }
    let detail = format!(
        "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    );
    let mut errors = ErrorList::new();
    errors.push(FieldError::forbidden(&Path::root(&path), detail));
    let subject = Subject::of(attributes.write.kind.declaration(), view::name(object));
    Err(Error::Invalid { subject: Box::new(subject), errors })
}

#[cfg(test)]
mod tests {
    use coracle_registry::Kind;
    use coracle_registry::kinds::resource::resource_claim::ResourceClaim;
    use coracle_registry::kinds::resource::resource_claim_template::ResourceClaimTemplate;
    use serde_json::json;

    use super::super::testing::{Bench, NAMESPACE, only};
    use super::*;

    const REQUIRED: &str = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

    fn requests(admin_access: bool) -> Value {
        let request = |access: bool| json!({"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All", "adminAccess": access}});
        json!({"devices": {"requests": [request(false), request(admin_access)]}})
    }

    fn claim(spec: Value) -> Value {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": spec})
    }

    fn allocated(admin_access: bool) -> Value {
        let mut claim = claim(json!({}));
        claim["status"] = json!({"allocation": {"devices": {"results": [{"adminAccess": admin_access}]}}});
        claim
    }

    async fn label_namespace(bench: &Bench, value: &'static str) {
        let label = |mut namespace: Value| {
            namespace["metadata"]["labels"][ADMIN_ACCESS_LABEL] = value.into();
            Ok(namespace)
        };
        bench.change(&Namespace, NAMESPACE, &label).await;
    }

    async fn created(bench: &Bench, kind: &dyn Kind, object: Value) -> Result<Value, String> {
        bench.admit(&only(ResourceClaimAdminAccess), kind, Operation::Create, object).await
    }

    #[tokio::test]
    async fn admin_access_is_rejected_unless_the_namespace_is_labelled() {
        let bench = Bench::new().await;
        let template = |access| claim(json!({"spec": requests(access)}));
        for value in ["", "false", "True"] {
            label_namespace(&bench, value).await;
            let message = created(&bench, &ResourceClaim, claim(requests(true))).await.unwrap_err();
            let claims = "ResourceClaim.resource.k8s.io \"a\" is invalid";
            assert_eq!(message, format!("{claims}: spec.devices.requests[1].adminAccess: {REQUIRED}"));
            let message = created(&bench, &ResourceClaimTemplate, template(true)).await.unwrap_err();
            let templates = "ResourceClaimTemplate.resource.k8s.io \"a\" is invalid";
            assert_eq!(message, format!("{templates}: spec.devices.requests[1].adminAccess: {REQUIRED}"));
            assert!(created(&bench, &ResourceClaim, claim(requests(false))).await.is_ok());
            assert!(created(&bench, &ResourceClaimTemplate, template(false)).await.is_ok());
        }
        label_namespace(&bench, "true").await;
        assert!(created(&bench, &ResourceClaim, claim(requests(true))).await.is_ok());
        assert!(created(&bench, &ResourceClaimTemplate, template(true)).await.is_ok());
    }

    #[tokio::test]
    async fn status_that_grants_admin_access_is_rejected_unless_it_did_before() {
        let bench = Bench::new().await;
        let update = async |old: Value, new: Value| {
            bench.admit_update(ResourceClaimAdminAccess, &ResourceClaim, "status", &old, new).await
        };
        let message = update(allocated(false), allocated(true)).await.unwrap_err();
        let path = "status.allocation.devices.results[0].adminAccess";
        assert_eq!(message, format!("ResourceClaim.resource.k8s.io \"a\" is invalid: {path}: {REQUIRED}"));
        assert!(update(allocated(true), allocated(true)).await.is_ok());
        assert!(update(allocated(true), allocated(false)).await.is_ok());
        label_namespace(&bench, "true").await;
        assert!(update(allocated(false), allocated(true)).await.is_ok());
    }
}
