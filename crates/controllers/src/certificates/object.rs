//! View of a CertificateSigningRequest.

use coracle_runtime::informer::{Metadata, View};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequestCondition as Condition, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
pub(super) struct SigningRequest {
    metadata: Metadata,
    pub(super) uid: Box<str>,
    pub(super) created: Option<Time>,
    pub(super) spec: CertificateSigningRequestSpec,
    pub(super) conditions: Vec<Condition>,
    pub(super) certificate: Vec<u8>,
}

/// The wire format.
#[derive(Deserialize)]
struct Whole {
    metadata: WholeMetadata,
    spec: CertificateSigningRequestSpec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WholeMetadata {
    #[serde(flatten)]
    metadata: Metadata,
    #[serde(default)]
    uid: Box<str>,
    creation_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    certificate: Option<ByteString>,
}

impl From<Whole> for SigningRequest {
    fn from(whole: Whole) -> Self {
        Self {
            metadata: whole.metadata.metadata,
            uid: whole.metadata.uid,
            created: whole.metadata.creation_timestamp,
            spec: whole.spec,
            conditions: whole.status.conditions,
            certificate: whole.status.certificate.unwrap_or_default().0,
        }
    }
}

impl View for SigningRequest {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl SigningRequest {
    pub(super) fn is_issued(&self) -> bool {
        !self.certificate.is_empty()
    }

    /// All conditions of a type, whatever their status.
    pub(super) fn of_type(&self, wanted: &str) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(move |condition| condition.type_ == wanted)
    }

    pub(super) fn has(&self, wanted: &str) -> bool {
        self.of_type(wanted).next().is_some()
    }

    /// True if a condition of this type is true; an empty status counts as true.
    pub(super) fn has_true(&self, wanted: &str) -> bool {
        self.of_type(wanted).any(|condition| matches!(condition.status.as_str(), "" | "True"))
    }

    pub(super) fn usages(&self) -> &[String] {
        self.spec.usages.as_deref().unwrap_or_default()
    }

    /// A patch that appends a condition, and fails if the object has changed.
    pub(super) fn with_condition(&self, kind: &str, reason: &str, message: &str) -> Value {
        let mut conditions: Vec<Value> = self.conditions.iter().map(|known| json!(known)).collect();
        conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": message}));
        self.patch(json!({"conditions": conditions}))
    }

    /// A patch of the status for this resource version.
    pub(super) fn patch(&self, status: Value) -> Value {
        json!({"metadata": {"resourceVersion": self.metadata.resource_version}, "status": status})
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    /// A request in PEM. Subject attributes are `O=` or `CN=` and a value.
    pub(in super::super) fn pem(subject: &[&str], names: &[SanType]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for attribute in subject {
            let (kind, value) = attribute.split_once('=').unwrap();
            let kind = if kind == "O" { DnType::OrganizationName } else { DnType::CommonName };
            params.distinguished_name.push(kind, value);
        }
        params.subject_alt_names = names.to_vec();
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    /// A client certificate request of a kubelet.
    pub(in super::super) fn kubelet() -> String {
        pem(&["O=system:nodes", "CN=system:node:a"], &[])
    }

    pub(in super::super) fn request(
        signer: &str,
        usages: &[&str],
        pem: &str,
        status: Value,
    ) -> SigningRequest {
        let bytes = ByteString(pem.as_bytes().to_vec());
        serde_json::from_value(json!({
            "metadata": {
                "name": "csr", "resourceVersion": "7", "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "request": bytes, "signerName": signer, "usages": usages, "username": "system:bootstrap:abcdef",
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn with_condition_appends_to_existing_conditions() {
        let denied = json!({"type": "Denied", "status": "True"});
        let known = request("a.b/c", &["any"], "", json!({"conditions": [denied]}));
        let patch = known.with_condition("Failed", "R", "M");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"]["conditions"][0]["type"], "Denied");
        assert_eq!(patch["status"]["conditions"][1]["message"], "M");
    }
}
