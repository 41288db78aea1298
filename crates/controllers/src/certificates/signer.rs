//! Signs approved certificate signing requests, by Kubernetes' rules for each signer.

use std::sync::Arc;
use std::time::Duration;

use coracle_runtime::{Action, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::json;

use super::object::SigningRequest;
use super::request::{CertificateRequest, check_client_usages};
use super::{API_CLIENT, CertificateSigner, KUBELET_CLIENT, KUBELET_SERVING, LEGACY, SignError, patch_part};
use crate::{Registration, Settings};

/// Longest and shortest lifetime of a certificate: the default of `--cluster-signing-duration`, and twice the time by
/// which certificates are backdated.
const MAX_LIFE: Duration = Duration::from_hours(365 * 24);
const MIN_LIFE: Duration = Duration::from_mins(10);

/// Usages of certificates signed in clusters other than the default one: those that Kubernetes allows for
/// `kubernetes.io/kube-apiserver-client`.
const CLIENT_AUTH: &str = "client auth";
const CLIENT_USAGES: [&str; 3] = [CLIENT_AUTH, "digital signature", "key encipherment"];

pub(crate) const REGISTRATION: Registration =
    Registration { name: "certificatesigningrequest-signing-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let Some(signer) = &settings.signer else { return };
    let requests = super::informer(manager);
    let objects = Objects::of::<CertificateSigningRequest>(manager.client());
    let reconcile = Signer { objects, signer: Arc::clone(signer), requests: requests.clone() };
    let controller =
        Controller::new(REGISTRATION.name, reconcile).watches(&requests, |change| [change.key.clone()]);
    manager.add(controller);
}

/// Next step for a request.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// The request violates a rule of its signer.
    Fail(String),
    /// The request in DER, and the lifetime of its certificate.
    Sign(Vec<u8>, Duration),
}

fn plan(cluster: &ClusterId, request: &SigningRequest) -> Plan {
    let approved = request.has("Approved") && !request.has("Denied");
    if request.is_issued() || !approved || request.has_true("Failed") {
        return Plan::Nothing;
    }
    // An unreadable request cannot have passed validation, and does not become readable.
    let Some(parsed) = CertificateRequest::parse(&request.spec.request.0) else { return Plan::Nothing };
    let checked = match request.spec.signer_name.as_str() {
        API_CLIENT => check_client_usages(request.usages()),
        KUBELET_CLIENT => parsed.check_kubelet_client(request.usages()),
        KUBELET_SERVING => parsed.check_kubelet_serving(request.usages()),
        LEGACY => Ok(()),
        _ => return Plan::Nothing,
    };
    match checked.and_then(|()| check_cluster(cluster, request.usages())) {
        Ok(()) => Plan::Sign(parsed.der, life(request.spec.expiration_seconds)),
        Err(message) => Plan::Fail(message),
    }
}

/// Only client certificates are signed in clusters other than the default one. All clusters trust the same authority
/// for servers, so a serving certificate approved in one cluster could pose as the API server of the others.
fn check_cluster(cluster: &ClusterId, usages: &[String]) -> Result<(), String> {
    let is_client = |usage: &String| CLIENT_USAGES.contains(&usage.as_str());
    let for_clients_only = usages.iter().any(|usage| usage == CLIENT_AUTH) && usages.iter().all(is_client);
    if *cluster == ClusterId::default() || for_clients_only {
        return Ok(());
    }
    Err(format!("only client certificates are signed in cluster {}", cluster.as_str()))
}

/// The requested lifetime, within limits.
fn life(seconds: Option<i32>) -> Duration {
    let parsed = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    parsed.unwrap_or(MAX_LIFE).clamp(MIN_LIFE, MAX_LIFE)
}

struct Signer {
    objects: Objects,
    signer: Arc<dyn CertificateSigner>,
    requests: Informer<SigningRequest>,
}

/// Error of signing a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    #[error("error auto signing csr")]
    Sign(#[from] SignError),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Reconcile for Signer {
    type Error = SigningError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, SigningError> {
        let Some(request) = self.requests.store().get(key) else { return Ok(Action::AwaitChange) };
        let patch = match plan(key.cluster(), &request) {
            Plan::Nothing => return Ok(Action::AwaitChange),
            Plan::Fail(message) => request.with_condition("Failed", "SignerValidationFailure", &message),
            Plan::Sign(der, life) => {
                let pem = self.signer.sign(key.cluster(), &der, request.usages(), life)?;
                request.patch(json!({"certificate": ByteString(pem.into_bytes())}))
            }
        };
        patch_part(&self.objects, key, "status", &patch).await?;
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;
    use serde_json::Value;

    use super::super::object::tests::{kubelet, pem, request};
    use super::*;

    const CLIENT: &[&str] = &["client auth", "digital signature"];

    fn approved() -> Value {
        json!({"conditions": [{"type": "Approved", "status": "True"}]})
    }

    fn planned(signer: &str, usages: &[&str], pem: &str, status: Value) -> Plan {
        plan(&ClusterId::default(), &request(signer, usages, pem, status))
    }

    fn signs(signer: &str, usages: &[&str], pem: &str) -> bool {
        matches!(planned(signer, usages, pem, approved()), Plan::Sign(..))
    }

    #[test]
    fn only_approved_unissued_requests_are_signed() {
        let planned = |status| planned(API_CLIENT, CLIENT, &pem(&["CN=jane"], &[]), status);
        assert!(matches!(planned(approved()), Plan::Sign(..)));
        for status in [
            json!({}),
            json!({"conditions": [{"type": "Denied", "status": "True"}]}),
            json!({"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}),
            json!({"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]}),
            json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "AAAA"}),
        ] {
            assert_eq!(planned(status.clone()), Plan::Nothing, "{status}");
        }
    }

    #[test]
    fn each_signer_checks_its_rules() {
        let anyone = pem(&["O=g", "CN=jane"], &[]);
        assert!(signs(API_CLIENT, CLIENT, &anyone));
        assert!(signs(KUBELET_CLIENT, CLIENT, &kubelet()));
        assert!(signs(LEGACY, &["any"], &anyone));
        assert!(!signs("example.com/other", CLIENT, &anyone));
        assert!(!signs(API_CLIENT, CLIENT, "nonsense"));
        let failed = |signer, usages, pem: &str| match planned(signer, usages, pem, approved()) {
            Plan::Fail(message) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(KUBELET_CLIENT, CLIENT, &anyone), "subject organization is not system:nodes");
        assert_eq!(failed(KUBELET_SERVING, CLIENT, &kubelet()), "DNS or IP subjectAltName is required");
        assert_eq!(failed(API_CLIENT, &["any"], &anyone), "invalid usage for client certificate: any");
    }

    #[test]
    fn only_client_certificates_are_signed_in_other_clusters() {
        let names = [SanType::DnsName("kubernetes".try_into().unwrap())];
        let serving = pem(&["O=system:nodes", "CN=system:node:a"], &names);
        let in_cluster = |cluster: &str, signer: &str, usages: &[&str], pem: &str| {
            plan(&ClusterId::new(cluster), &request(signer, usages, pem, approved()))
        };
        let server = &["server auth", "digital signature"];
        for (signer, usages, pem) in
            [(KUBELET_SERVING, &server[..], &serving), (LEGACY, &["any"], &serving), (LEGACY, &[], &serving)]
        {
            assert!(matches!(in_cluster("default", signer, usages, pem), Plan::Sign(..)), "{usages:?}");
            let expected = Plan::Fail("only client certificates are signed in cluster blue".to_owned());
            assert_eq!(in_cluster("blue", signer, usages, pem), expected, "{usages:?}");
        }
        for (signer, pem) in [(API_CLIENT, &serving), (KUBELET_CLIENT, &kubelet()), (LEGACY, &serving)] {
            assert!(matches!(in_cluster("blue", signer, CLIENT, pem), Plan::Sign(..)), "{signer}");
        }
    }

    #[test]
    fn certificate_life_is_clamped_to_limits() {
        assert_eq!(life(None), MAX_LIFE);
        assert_eq!(life(Some(3600)), Duration::from_hours(1));
        assert_eq!(life(Some(1)), MIN_LIFE);
        assert_eq!(life(Some(-1)), MIN_LIFE);
        assert_eq!(life(Some(i32::MAX)), MAX_LIFE);
    }
}
