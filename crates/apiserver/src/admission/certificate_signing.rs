//! CertificateSigning: issuing or refusing a certificate in the status of a certificate signing request requires
//! permission to `sign` for its signer.

use std::sync::Arc;

use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Result, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden, nothing_to_say};
use super::{CERTIFICATE_SIGNING_REQUESTS, CERTIFICATES, signers};
use crate::authorization::Authorizer;

pub(super) struct CertificateSigning {
    authorizer: Arc<dyn Authorizer>,
}

impl CertificateSigning {
    /// Creates the plugin; `authorizer` decides who may sign.
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer }
    }
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &str {
        "CertificateSigning"
    }

    fn validates(&self) -> Vec<Rule> {
        let requests = Rule::new(CERTIFICATES, CERTIFICATE_SIGNING_REQUESTS, &[Operation::Update]);
        vec![requests.of_subresource("status")]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        request: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        // The signer of the stored object, because the update must not choose another one.
        let Some(old) = attributes.old.filter(|old| !says_the_same(request, old)) else {
            return nothing_to_say();
        };
        let signer = view::text(old, &["spec", "signerName"]);
        Box::pin(async move {
            let permissions = self.authorizer.permissions(attributes.cluster).await?;
            if signers::may(&*permissions, attributes.write.requester, "sign", signer) {
                return Ok(());
            }
            let message = format!("user not permitted to sign requests with signerName {signer:?}");
            Err(forbidden(attributes, request, message))
        })
    }
}

/// Returns true if the certificate and the conditions are unchanged. Absent conditions equal an empty list.
fn says_the_same(new: &Value, old: &Value) -> bool {
    fn conditions(request: &Value) -> &[Value] {
        view::at(request, &["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let certificate = ["status", "certificate"];
    view::text(new, &certificate) == view::text(old, &certificate) && conditions(new) == conditions(old)
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::certificates::certificate_signing_request::CertificateSigningRequest;
    use serde_json::json;

    use super::super::testing::{Bench, permits};
    use super::*;

    async fn check(part: &str, permitted: &'static str, status: Value, refused: bool) {
        let old = json!({"metadata": {"name": "r"}, "spec": {"signerName": "example.com/a"}});
        let mut new = old.clone();
        new["status"] = status;
        let plugin = CertificateSigning::new(permits("sign", permitted));
        let bench = Bench::new().await;
        let outcome = bench.admit_update(plugin, &CertificateSigningRequest, part, &old, new).await;
        let message = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted \
                       to sign requests with signerName \"example.com/a\"";
        assert_eq!(outcome.err(), refused.then(|| message.to_owned()));
    }

    #[tokio::test]
    async fn signing_requires_permission_for_the_signer() {
        let signed = || json!({"certificate": "AAAA"});
        let failed = || json!({"conditions": [{"type": "Failed", "status": "True"}]});
        check("status", "example.com/a", signed(), false).await;
        check("status", "example.com/*", failed(), false).await;
        check("status", "other.com/*", signed(), true).await;
        check("status", "other.com/*", failed(), true).await;
        check("status", "other.com/*", json!({"conditions": []}), false).await;
        check("approval", "other.com/*", failed(), false).await;
    }
}
