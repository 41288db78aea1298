//! CertificateSubjectRestriction: rejects requests for client certificates of the group `system:masters`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Result, view};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer};

use super::plugin::{Plugin, Rule, forbidden};
use super::{CERTIFICATE_SIGNING_REQUESTS, CERTIFICATES};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &str {
        "CertificateSubjectRestriction"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new(CERTIFICATES, CERTIFICATE_SIGNING_REQUESTS, &[Operation::Create])]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        request: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let outcome = check(request).map_err(|message| forbidden(attributes, request, message));
        Box::pin(std::future::ready(outcome))
    }
}

fn check(request: &Value) -> Result<(), String> {
    if view::text(request, &["spec", "signerName"]) != SIGNER {
        return Ok(());
    }
    let failed = |reason: &str| format!("failed to parse CSR: {reason}");
    let base64 = view::text(request, &["spec", "request"]).replace(['\r', '\n'], "");
    let pem = STANDARD.decode(base64).map_err(|_| failed("it is not in base64"))?;
    let mut is_first = true;
    // The first block is the request. Others are checked because the signer may parse the text differently.
    for block in Pem::iter_from_buffer(&pem) {
        let block = block.map_err(|_| failed("PEM block type must be CERTIFICATE REQUEST"))?;
        match X509CertificationRequest::from_der(&block.contents) {
            Ok((_, parsed)) if asks_for_masters(&parsed) => {
                return Err(format!("use of {SIGNER} signer with {MASTERS} group is not allowed"));
            }
            Err(_) if is_first => return Err(failed("it is not a certificate request")),
            _ => is_first = false,
        }
    }
    if is_first { Err(failed("PEM block type must be CERTIFICATE REQUEST")) } else { Ok(()) }
}

/// A group that cannot be decoded here counts as `system:masters`, because the signer might decode it.
fn asks_for_masters(request: &X509CertificationRequest<'_>) -> bool {
    let mut groups = request.certification_request_info.subject.iter_organization();
    groups.any(|part| text(part).is_none_or(|group| group == MASTERS))
}

fn text(part: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = part.attr_value();
    part.as_str()
        .map(str::to_owned)
        .or_else(|_| value.as_bmpstring().map(|text| text.string()))
        .or_else(|_| value.as_universalstring().map(|text| text.string()))
        .ok()
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::certificates::certificate_signing_request::CertificateSigningRequest;
    use rcgen::string::BmpString;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    fn pem(organization: impl Into<DnValue>) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    async fn check(signer: &str, pem: String, refused: Option<&str>) {
        let request = json!({
            "metadata": {"name": "r"},
            "spec": {"signerName": signer, "request": STANDARD.encode(pem)},
        });
        let bench = Bench::new().await;
        let plugin = CertificateSubjectRestriction;
        let outcome = bench.admit_new(plugin, &CertificateSigningRequest, request).await;
        let message =
            |reason| format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {reason}");
        assert_eq!(outcome.err(), refused.map(message));
    }

    #[tokio::test]
    async fn request_for_the_masters_group_is_rejected() {
        let refused =
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        check(SIGNER, pem(MASTERS), Some(refused)).await;
        let wide = DnValue::BmpString(BmpString::try_from(MASTERS).unwrap());
        check(SIGNER, pem(wide), Some(refused)).await;
        check(SIGNER, pem("developers") + &pem(MASTERS), Some(refused)).await;
        check(SIGNER, pem("developers"), None).await;
        check("example.com/other", pem(MASTERS), None).await;
        let nothing = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST";
        check(SIGNER, "nothing".to_owned(), Some(nothing)).await;
    }
}
