//! CertificateSigningRequest: a request for a certificate, its approval, and the issued certificate.
//!
//! The server records the requester; values that a client sends for it are overwritten.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::apply::{FieldFilter, FieldSet};
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::table::human_duration;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::{conditions, pem, signer_name};
use crate::identity::Identity;
use crate::kind::{Column, Declaration, Kind, NameRule, Scope, Subresource, Verbs, texts};
use crate::kinds::ratchet;
use crate::kinds::rules;
use crate::view;

/// Minimum expiration of certificates, as in Kubernetes.
const MIN_EXPIRATION_SECONDS: i64 = 600;

/// A signer that is no longer allowed for new requests.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// Allowed usages of a certificate.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// [`Kind`] of CertificateSigningRequest objects.
pub struct CertificateSigningRequest;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["csr"]),
    subresources: vec![
        Subresource::new("approval", "CertificateSigningRequest", Verbs::STATUS),
        Subresource::status("CertificateSigningRequest"),
    ],
    names: NameRule::PathSegment,
    selectable_fields: texts(&["spec.signerName"]),
    columns: vec![
        Column::name(),
        Column::age(),
        Column::text("SignerName", "who is asked to sign"),
        Column::text("Requestor", "who asks"),
        Column::text("RequestedDuration", "how long the certificate is to be valid"),
        Column::text("Condition", "what was decided, and whether a certificate was issued"),
    ],
    storage_version_hash: "95fRKMXA+00=".into(),
    ..Declaration::new(
        "certificates.k8s.io",
        &["v1"],
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "certificatesigningrequest",
        Scope::Cluster,
    )
});

impl Kind for CertificateSigningRequest {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    /// The user of the request becomes the requester, whatever the body says.
    fn note_requester(&self, object: &mut Value, requester: &Identity) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let Identity { name, uid, groups, extra } = requester;
        for (field, value, is_empty) in [
            ("username", json!(name), name.is_empty()),
            ("uid", json!(uid), uid.is_empty()),
            ("groups", json!(groups), groups.is_empty()),
            ("extra", json!(extra), extra.is_empty()),
        ] {
            spec.remove(field);
            if !is_empty {
                spec.insert(field.to_owned(), value);
            }
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, now: Time) {
        conditions::populate_times(new, old, &now.to_string());
        for condition_type in conditions::APPROVAL {
            conditions::keep(new, old, condition_type);
        }
    }

    /// `approval` is the only other subresource: it changes conditions and metadata.
    fn prepare_for_part_update(&self, _part: &str, new: &mut Value, old: &Value, now: Time) {
        conditions::populate_times(new, old, &now.to_string());
        keep_field(new, old, "spec");
        let decided = view::at(new, &["status", "conditions"]).cloned();
        keep_field(new, old, "status");
        let Value::Object(fields) = new else { return };
        let status = fields.entry("status").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(status) = status.as_object_mut() {
            status.remove("conditions");
            status.extend(decided.map(|decided| ("conditions".to_owned(), decided)));
        }
    }

    fn validate_part_update(&self, _part: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.revalidate(new, old, errors);
        conditions::check_none_removed(new, old, errors);
        check_certificate_kept(new, old, errors);
    }

    fn untouched(&self, part: &str) -> Option<FieldFilter> {
        let rest: &[&str] = match part {
            "" => &["status"],
            "status" => &["status", "conditions"],
            _ => &["status", "certificate"],
        };
        Some(FieldFilter::Except(FieldSet::of_fields(&[&["spec"], rest])))
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        check_request(object, &path.child("request"), errors);
        check_usages(object, &path.child("usages"), errors);
        let (signer, signer_path) = (view::text(object, &["spec", "signerName"]), path.child("signerName"));
        if signer == LEGACY_SIGNER {
            let detail = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid(&signer_path, signer, detail).unless(ratchet::LEGACY_SIGNER));
        } else {
            signer_name::check(&signer_path, signer, errors);
        }
        let seconds = view::integer(object, &["spec", "expirationSeconds"]);
        if let Some(seconds) = seconds.filter(|seconds| *seconds < MIN_EXPIRATION_SECONDS) {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
        }
        conditions::check(object, errors);
        errors.ratcheted(ratchet::CERTIFICATE, |errors| check_certificate(object, errors));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        conditions::check_none_removed(new, old, errors);
        conditions::check_approval_kept(new, old, errors);
        check_certificate_kept(new, old, errors);
    }

    fn validate_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.revalidate(new, old, errors);
        conditions::check_none_removed(new, old, errors);
        conditions::check_approval_kept(new, old, errors);
        let (new, old) = (certificate(new), certificate(old));
        if new != old && !old.is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(FieldError::forbidden(&Path::root("status.certificate"), detail));
        }
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        view::text(object, &["spec", "signerName"]).into()
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let signer = view::text(object, &["spec", "signerName"]);
        let duration = view::integer(object, &["spec", "expirationSeconds"]);
        vec![
            view::name(object).into(),
            view::age(object, now),
            if signer.is_empty() { "<none>" } else { signer }.into(),
            view::text(object, &["spec", "username"]).into(),
            duration.map_or_else(|| "<none>".to_owned(), human_duration).into(),
            decision(object).into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        vec![
            crate::samples::Stored::of(valid, &json!({"spec": {"signerName": LEGACY_SIGNER}})),
            crate::samples::Stored::of(valid, &json!({"spec": {"usages": ["any", "any", "fun"]}})),
        ]
    }
}

fn keep_field(new: &mut Value, old: &Value, field: &str) {
    let Value::Object(fields) = new else { return };
    match old.get(field) {
        Some(kept) => drop(fields.insert(field.to_owned(), kept.clone())),
        None => drop(fields.remove(field)),
    }
}

fn certificate(object: &Value) -> &str {
    view::text(object, &["status", "certificate"])
}

/// Only the signer sets the certificate.
fn check_certificate_kept(new: &Value, old: &Value, errors: &mut ErrorList) {
    if certificate(new) != certificate(old) {
        let detail = "updates may not set certificate content";
        errors.push(FieldError::forbidden(&Path::root("status.certificate"), detail));
    }
}

fn check_request(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let request = view::text(object, &["spec", "request"]);
    let first = pem::blocks(request).into_iter().next();
    let fault = match first {
        Some(block) if block.label != "CERTIFICATE REQUEST" => "PEM block type must be CERTIFICATE REQUEST",
        None => "PEM block type must be CERTIFICATE REQUEST",
        Some(block) if !block.is_sequence() => "asn1: structure error: malformed certificate request",
        Some(_) => return,
    };
    // kube-apiserver prints absent bytes as null.
    let found = match view::at(object, &["spec", "request"]) {
        Some(_) => BadValue::named(request),
        None => BadValue::json(&Value::Null),
    };
    errors.push(FieldError::invalid(path, found, fault));
}

fn check_usages(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let usages = view::items(object, &["spec", "usages"]);
    if usages.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().filter_map(Value::as_str).enumerate() {
        errors.ratcheted(ratchet::KNOWN_USAGES, |errors| {
            rules::one_of(&path.index(index), usage, &USAGES, errors);
        });
        if !seen.insert(usage) {
            let error = FieldError::duplicate(&path.index(index), BadValue::named(usage));
            errors.push(error.unless(ratchet::USAGE_TWICE));
        }
    }
}

fn check_certificate(object: &Value, errors: &mut ErrorList) {
    if certificate(object).is_empty() {
        return;
    }
    let blocks = pem::blocks(certificate(object));
    let fault = blocks.iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            let label = coracle_meta::field::quoted(&block.label);
            Some(format!("only CERTIFICATE PEM blocks are allowed, found {label}"))
        } else if block.has_headers {
            Some("no PEM block headers are permitted".to_owned())
        } else {
            (!block.is_sequence()).then(|| "x509: malformed certificate".to_owned())
        }
    });
    let none = || blocks.is_empty().then(|| "must contain at least one CERTIFICATE PEM block".to_owned());
    if let Some(detail) = fault.or_else(none) {
        errors.push(FieldError::invalid(&Path::root("status.certificate"), "<certificate data>", detail));
    }
}

/// The table column with approval and result.
fn decision(object: &Value) -> String {
    let has = |wanted: &str| !conditions::of_type(object, wanted).is_empty();
    let mut decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        decision.push_str(",Failed");
    }
    if !certificate(object).is_empty() {
        decision.push_str(",Issued");
    }
    decision
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        json!({"spec": {
            "request": SAMPLE_REQUEST,
            "signerName": "example.com/signer",
            "usages": ["client auth", "digital signature"],
            "expirationSeconds": 3600,
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/spec/request", json!("aGVsbG8="), "spec.request", "FieldValueInvalid"),
            refused("/spec/usages", json!([]), "spec.usages", "FieldValueRequired"),
            refused("/spec/usages", json!(["fun"]), "spec.usages[0]", "FieldValueNotSupported"),
            refused("/spec/usages", json!(["any", "any"]), "spec.usages[1]", "FieldValueDuplicate"),
            refused("/spec/signerName", Value::Null, "spec.signerName", "FieldValueRequired"),
            refused("/spec/signerName", json!(LEGACY_SIGNER), "spec.signerName", "FieldValueInvalid"),
            refused("/spec/signerName", json!("a/b/c"), "spec.signerName", "FieldValueInvalid"),
            refused("/spec/signerName", json!("a/b"), "spec.signerName", "FieldValueInvalid"),
            refused("/spec/expirationSeconds", json!(599), "spec.expirationSeconds", "FieldValueInvalid"),
        ],
        valid: vec![valid],
        updates: vec![
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"spec": {"signerName": "kept as it was"}}),
        ],
        invalid_updates: vec![Refused::new(
            json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}),
            "status.conditions",
            "FieldValueForbidden",
        )],
    }
}

/// A request of `O=g, CN=jane`.
#[cfg(any(test, feature = "samples"))]
const SAMPLE_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIVk1IMENBUUF3R3pFS01BZ0dBMVVFQ2d3Qlp6RU5NQXNHQTFVRUF3d0VhbUZ1WlRCWk1CTUdCeXFHU000OQpBZ0VHQ0NxR1NNNDlBd0VIQTBJQUJCNGVSVzA3YklRakIvNTUxR0VzeUhFYWl4Vi9PWnB1Q1piU1FyVTAyQmlLCkdzekFuUGtkUWRsRlA4V2YzbDJmNWpCSnIxVmI4TDF5K3NRNVozdnlmbEdnQURBS0JnZ3Foa2pPUFFRREFnTkkKQURCRkFpQnNYcXM1RXZwbEFSdVJ2eTgwK01QNDVHcGI1V0NvTFdnbFNjRjlpSnpDc2dJaEFOWnRzK2RHb1J1YQpkVDczRk4xN3llUkxYdnRUcXBrTzFTcUVWV25oNFl5TwotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approved() -> Value {
        let mut object = samples().valid.remove(0);
        object["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        object
    }

    fn errors_of_approval(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        CertificateSigningRequest.validate_part_update("approval", new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn approval_changes_only_conditions_and_is_final() {
        let pending = samples().valid.remove(0);
        let mut new = approved();
        new["spec"]["signerName"] = json!("other.com/signer");
        new["status"]["certificate"] = json!("AAAA");
        CertificateSigningRequest.prepare_for_part_update("approval", &mut new, &pending, Time(0));
        assert_eq!(new["spec"], pending["spec"]);
        assert!(certificate(&new).is_empty());
        assert_eq!(new["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert!(errors_of_approval(&new, &pending).is_empty());
        let expected =
            "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
        assert_eq!(errors_of_approval(&pending, &new), [expected]);
        new["status"]["conditions"][0]["type"] = json!("Denied");
        new["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(errors_of_approval(&new, &pending).len(), 1);
    }

    #[test]
    fn absent_request_is_reported_as_null_and_empty_request_as_text() {
        for (spec, found) in [(json!({}), "null"), (json!({"request": ""}), "\"\"")] {
            let mut errors = ErrorList::default();
            check_request(&json!({"spec": spec}), &Path::root("spec.request"), &mut errors);
            let expected =
                format!("spec.request: Invalid value: {found}: PEM block type must be CERTIFICATE REQUEST");
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn certificate_is_set_once() {
        let old = approved();
        let mut new = old.clone();
        new["status"]["certificate"] = json!("aGVsbG8=");
        let mut errors = ErrorList::default();
        CertificateSigningRequest.validate_status_update(&new, &old, &mut errors);
        let expected = "status.certificate: Invalid value: \"<certificate data>\": \
                        must contain at least one CERTIFICATE PEM block";
        assert_eq!(errors.to_string(), expected);
        assert_eq!(decision(&new), "Approved,Issued");
    }
}
