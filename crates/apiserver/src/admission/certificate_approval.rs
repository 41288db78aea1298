//! CertificateApproval: approving or denying a certificate signing request requires permission to `approve` for its
//! signer.

use std::sync::Arc;

use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Result, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden};
use super::{CERTIFICATE_SIGNING_REQUESTS, CERTIFICATES, signers};
use crate::authorization::Authorizer;

pub(super) struct CertificateApproval {
    authorizer: Arc<dyn Authorizer>,
}

impl CertificateApproval {
    /// Creates the plugin; `authorizer` decides who may approve.
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer }
    }
}

impl Plugin for CertificateApproval {
    fn name(&self) -> &str {
        "CertificateApproval"
    }

    fn validates(&self) -> Vec<Rule> {
        let requests = Rule::new(CERTIFICATES, CERTIFICATE_SIGNING_REQUESTS, &[Operation::Update]);
        vec![requests.of_subresource("approval")]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        request: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        // The signer of the stored object, because the update must not choose another one.
        let signer = view::text(attributes.old.unwrap_or(request), &["spec", "signerName"]);
        Box::pin(async move {
            let permissions = self.authorizer.permissions(attributes.cluster).await?;
            if signers::may(&*permissions, attributes.write.requester, "approve", signer) {
                return Ok(());
            }
            let message = format!("user not permitted to approve requests with signerName {signer:?}");
            Err(forbidden(attributes, request, message))
        })
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::certificates::certificate_signing_request::CertificateSigningRequest;
    use serde_json::json;

    use super::super::testing::{Bench, permits};
    use super::*;

    async fn check(part: &str, permitted: &'static str, refused: bool) {
        let old = json!({"metadata": {"name": "r"}, "spec": {"signerName": "example.com/a"}});
        let mut new = old.clone();
        new["spec"]["signerName"] = "mine.com/a".into();
        new["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let plugin = CertificateApproval::new(permits("approve", permitted));
        let bench = Bench::new().await;
        let outcome = bench.admit_update(plugin, &CertificateSigningRequest, part, &old, new).await;
        let message = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted \
                       to approve requests with signerName \"example.com/a\"";
        assert_eq!(outcome.err(), refused.then(|| message.to_owned()));
    }

    #[tokio::test]
    async fn approval_requires_permission_for_the_signer() {
        check("approval", "example.com/a", false).await;
        check("approval", "example.com/*", false).await;
        check("approval", "other.com/*", true).await;
        check("approval", "mine.com/a", true).await;
        check("status", "other.com/*", false).await;
    }
}
