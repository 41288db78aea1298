//! Approves certificate signing requests of kubelets, if the requester is allowed to: a node that joins with a token,
//! or one that renews its own certificate.

use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::informer::View;
use coracle_runtime::{Action, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;

use super::object::SigningRequest;
use super::request::CertificateRequest;
use super::{KUBELET_CLIENT, patch_part};
use crate::bootstrap_token::{self, Admission};
use crate::{Registration, Settings};

/// When to check again a request whose sender lacks permission: roles may change without an event for the request.
/// Kubernetes waits this long at most, half of it on average.
const PERMISSION_RECHECK: Duration = Duration::from_mins(8);

pub(crate) const REGISTRATION: Registration =
    Registration { name: "certificatesigningrequest-approving-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let requests = super::informer(manager);
    let client = manager.client();
    let reconcile = Approver {
        objects: Objects::of::<CertificateSigningRequest>(client),
        reviews: Objects::of::<SubjectAccessReview>(client),
        secrets: Objects::of::<Secret>(client),
        clock: settings.clock.clone(),
        requests: requests.clone(),
    };
    let controller =
        Controller::new(REGISTRATION.name, reconcile).watches(&requests, |change| [change.key.clone()]);
    manager.add(controller);
}

/// The subresource that the requester must be allowed to create, and the condition's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Permission {
    subresource: &'static str,
    message: &'static str,
}

const OWN: Permission = Permission {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};

const ANY: Permission = Permission {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// Permissions of which one suffices; empty if the request is not a kubelet's, or is already decided.
fn plan(request: &SigningRequest) -> Vec<Permission> {
    if request.is_issued() || request.has("Approved") || request.has("Denied") {
        return Vec::new();
    }
    let Some(parsed) = CertificateRequest::parse(&request.spec.request.0) else { return Vec::new() };
    let fits =
        request.spec.signer_name == KUBELET_CLIENT && parsed.check_kubelet_client(request.usages()).is_ok();
    if !fits {
        return Vec::new();
    }
    let is_own = request.spec.username.as_deref().unwrap_or_default() == parsed.common_name;
    if is_own { vec![OWN, ANY] } else { vec![ANY] }
}

struct Approver {
    objects: Objects,
    reviews: Objects,
    secrets: Objects,
    clock: Clock,
    requests: Informer<SigningRequest>,
}

impl Approver {
    async fn may(
        &self,
        cluster: &ClusterId,
        request: &SigningRequest,
        permission: Permission,
    ) -> Result<bool, kube::Error> {
        let resource = ResourceAttributes {
            group: Some("certificates.k8s.io".to_owned()),
            version: Some("*".to_owned()),
            resource: Some("certificatesigningrequests".to_owned()),
            subresource: Some(permission.subresource.to_owned()),
            verb: Some("create".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: request.spec.username.clone(),
            uid: request.spec.uid.clone(),
            groups: request.spec.groups.clone(),
            extra: request.spec.extra.clone(),
            resource_attributes: Some(resource),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let beside = ObjectKey::cluster_wide(cluster.clone(), "");
        let answer = self.reviews.create::<SubjectAccessReview>(&beside, &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn approve(
        &self,
        key: &ObjectKey,
        request: &SigningRequest,
        permission: Permission,
    ) -> Result<Action, kube::Error> {
        let user = request.spec.username.as_deref().unwrap_or_default();
        // Counted before the approval, so that the limit is never exceeded; the same request counts once.
        let admitted =
            bootstrap_token::admit(&self.secrets, key.cluster(), user, &request.uid, self.clock.now())
                .await?;
        if admitted == Admission::Refused {
            tracing::info!(
                user,
                request = &*request.metadata().name,
                "not approving a request: usage limit of the bootstrap token is reached"
            );
            return Ok(Action::AwaitChange);
        }
        let patch = request.with_condition("Approved", "AutoApproved", permission.message);
        patch_part(&self.objects, key, "approval", &patch).await?;
        Ok(Action::AwaitChange)
    }
}

impl Reconcile for Approver {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(request) = self.requests.store().get(key) else { return Ok(Action::AwaitChange) };
        let wanted = plan(&request);
        for permission in &wanted {
            if self.may(key.cluster(), &request, *permission).await? {
                return self.approve(key, &request, *permission).await;
            }
        }
        Ok(if wanted.is_empty() { Action::AwaitChange } else { Action::RequeueAfter(PERMISSION_RECHECK) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::object::tests::{kubelet, pem, request};
    use super::*;

    const USAGES: &[&str] = &["client auth", "digital signature"];

    fn planned(signer: &str, usages: &[&str], pem: &str, user: &str, status: Value) -> Vec<Permission> {
        let mut request = request(signer, usages, pem, status);
        request.spec.username = Some(user.to_owned());
        plan(&request)
    }

    #[test]
    fn kubelet_client_requests_need_permission() {
        let none = || json!({});
        assert_eq!(planned(KUBELET_CLIENT, USAGES, &kubelet(), "system:bootstrap:abcdef", none()), [ANY]);
        assert_eq!(planned(KUBELET_CLIENT, USAGES, &kubelet(), "system:node:a", none()), [OWN, ANY]);
        assert_eq!(planned(KUBELET_CLIENT, USAGES, &kubelet(), "system:node:b", none()), [ANY]);
        assert!(planned("kubernetes.io/kube-apiserver-client", USAGES, &kubelet(), "u", none()).is_empty());
        assert!(planned(KUBELET_CLIENT, &["any"], &kubelet(), "u", none()).is_empty());
        let admin = pem(&["O=system:masters", "CN=system:node:a"], &[]);
        assert!(planned(KUBELET_CLIENT, USAGES, &admin, "u", none()).is_empty());
        assert!(planned(KUBELET_CLIENT, USAGES, "no request", "u", none()).is_empty());
    }

    #[test]
    fn decided_requests_are_left_alone() {
        for status in [
            json!({"conditions": [{"type": "Approved", "status": "True"}]}),
            json!({"conditions": [{"type": "Denied", "status": "True"}]}),
            json!({"certificate": "AAAA"}),
        ] {
            assert!(planned(KUBELET_CLIENT, USAGES, &kubelet(), "u", status).is_empty());
        }
    }
}
