//! Deletes certificate signing requests that are no longer needed. Kubernetes checks all of them every hour; here
//! each has its own deadline.

use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::informer::View;
use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Preconditions};
use x509_parser::pem::parse_x509_pem;

use super::object::SigningRequest;
use crate::{Registration, Settings};

/// Lifetime of decided and of pending requests, from `pkg/controller/certificates/cleaner`.
const DECIDED: Duration = Duration::from_hours(1);
const PENDING: Duration = Duration::from_hours(24);

pub(crate) const REGISTRATION: Registration =
    Registration { name: "certificatesigningrequest-cleaner-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let requests = super::informer(manager);
    let objects = Objects::of::<CertificateSigningRequest>(manager.client());
    let clock = settings.clock.clone();
    let reconcile = Cleaner { objects, clock, requests: requests.clone() };
    let controller =
        Controller::new(REGISTRATION.name, reconcile).watches(&requests, |change| [change.key.clone()]);
    manager.add(controller);
}

/// When to delete a request; `None` if it stays until it changes.
fn plan(request: &SigningRequest) -> Option<Timestamp> {
    let after = |time: &Option<Time>, wait: Duration| time.as_ref().map(|time| timestamp(time) + wait);
    if request.conditions.is_empty() {
        return after(&request.created, PENDING);
    }
    let approved = if request.is_issued() { DECIDED } else { PENDING };
    let decided = [("Approved", approved), ("Denied", DECIDED), ("Failed", DECIDED)];
    let decided = decided.into_iter().flat_map(|(kind, wait)| {
        request.of_type(kind).filter_map(move |condition| after(&condition.last_update_time, wait))
    });
    let expires = request.has("Approved").then(|| expiry(&request.certificate)).flatten();
    decided.chain(expires).min()
}

/// When the first certificate of a PEM text expires.
fn expiry(pem: &[u8]) -> Option<Timestamp> {
    let (_, block) = parse_x509_pem(pem).ok()?;
    let certificate = block.parse_x509().ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

fn timestamp(time: &Time) -> Timestamp {
    Timestamp::from_millis(u64::try_from(time.0.as_millisecond()).unwrap_or_default())
}

struct Cleaner {
    objects: Objects,
    clock: Clock,
    requests: Informer<SigningRequest>,
}

impl Reconcile for Cleaner {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(request) = self.requests.store().get(key) else { return Ok(Action::AwaitChange) };
        let Some(due) = plan(&request) else { return Ok(Action::AwaitChange) };
        let wait = due.since(self.clock.now());
        if !wait.is_zero() {
            return Ok(Action::RequeueAfter(wait));
        }
        let this_one =
            Preconditions { uid: Some(request.metadata().uid.to_string()), resource_version: None };
        let params = DeleteParams::default().preconditions(this_one);
        self.objects.delete(key, &params).await?;
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use serde_json::{Value, json};

    use super::super::object::tests::{kubelet, request};
    use super::*;

    /// When the request was created, in hours since 1970.
    const CREATED: u64 = 490_896;

    fn due(status: Value) -> Option<u64> {
        let found = plan(&request("a.b/c", &["any"], &kubelet(), status));
        found.map(|due| due.as_millis() / 3_600_000 - CREATED)
    }

    fn condition(kind: &str) -> Value {
        json!({"type": kind, "status": "True", "lastUpdateTime": "2026-01-01T02:00:00Z"})
    }

    #[test]
    fn requests_expire_by_condition() {
        assert_eq!(due(json!({})), Some(24));
        assert_eq!(due(json!({"conditions": [condition("Denied")]})), Some(3));
        assert_eq!(due(json!({"conditions": [condition("Failed")]})), Some(3));
        assert_eq!(due(json!({"conditions": [condition("Approved")]})), Some(26));
        assert_eq!(due(json!({"conditions": [condition("Approved")], "certificate": "AAAA"})), Some(3));
        assert_eq!(due(json!({"conditions": [condition("Approved"), condition("Failed")]})), Some(3));
        let timeless = json!({"type": "Approved", "status": "True"});
        assert_eq!(due(json!({"conditions": [timeless]})), None);
    }

    #[test]
    fn expired_certificate_expires_the_request() {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(2026, 1, 1);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let certificate = k8s_openapi::ByteString(pem.into_bytes());
        assert_eq!(due(json!({"conditions": [condition("Approved")], "certificate": certificate})), Some(0));
    }
}
