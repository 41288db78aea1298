//! Restrictions on a node's writes to persistent volume claims, its lease, its CSINode, resource slices and certificate
//! signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_registry::admission::Operation;
use coracle_registry::{Result, view};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::{Request, user_of};

/// The namespace with the leases of all nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// The signers of kubelet certificates.
pub(super) const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// The status fields of a claim that a node may change, and metadata that the server maintains.
const FREE_STATUS: [&str; 4] = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
const FREE_METADATA: [&str; 2] = ["resourceVersion", "managedFields"];

pub(super) fn judge_claim_status(request: &Request<'_>) -> Result<()> {
    if request.operation() != Operation::Update {
        return request.unexpected_operation();
    }
    let (new, old) = (fixed(request.object), fixed(request.old()));
    if new == old {
        return Ok(());
    }
    let changed = ["metadata", "spec", "status"].into_iter().filter(|part| new.get(part) != old.get(part));
    let changed = changed.collect::<Vec<_>>().join(", ");
    request.refuse(format!(
        "node {:?} is not allowed to update fields other than status.quantity and status.conditions: {changed}",
        request.node
    ))
}

/// The parts of a claim that a node may not change.
fn fixed(claim: &Value) -> Value {
    let mut claim = claim.clone();
    for (part, free) in [("status", &FREE_STATUS[..]), ("metadata", &FREE_METADATA)] {
        if let Some(Value::Object(fields)) = claim.get_mut(part) {
            fields.retain(|name, value| !free.contains(&name.as_str()) && !is_empty(value));
        }
    }
    claim
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

pub(super) fn judge_lease(request: &Request<'_>) -> Result<()> {
    if request.attributes.write.namespace != LEASE_NAMESPACE {
        return request.refuse(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
    }
    if request.name() != request.node {
        return request.refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

pub(super) fn judge_csi_node(request: &Request<'_>) -> Result<()> {
    if request.name() != request.node {
        return request.refuse("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Checks the node of a slice. The authorizer decides which slices may be read and changed.
pub(super) fn judge_resource_slice(request: &Request<'_>) -> Result<()> {
    let (slice, done) = match request.operation() {
        Operation::Create => (request.object, "create"),
        Operation::Delete => (request.old(), "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if view::text(slice, &["spec", "nodeName"]) == request.node {
        return Ok(());
    }
    request.refuse(format!("can only {done} ResourceSlice with the same NodeName as the requesting node"))
}

pub(super) fn judge_certificate_request(request: &Request<'_>) -> Result<()> {
    let signer = view::text(request.object, &["spec", "signerName"]);
    if request.operation() != Operation::Create || !KUBELET_SIGNERS.contains(&signer) {
        return Ok(());
    }
    let user = user_of(request.node);
    match common_name(view::text(request.object, &["spec", "request"])) {
        Err(reason) => request.refuse(format!("unable to parse csr: {reason}")),
        Ok(Some(name)) if name == user => Ok(()),
        Ok(_) => request.refuse(format!("can only create a node CSR with CN={user}")),
    }
}

/// The common name in a certificate request. Of several the last counts, as in Go.
fn common_name(base64: &str) -> Result<Option<String>, &'static str> {
    const NOT_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
    let pem = STANDARD.decode(base64.replace(['\r', '\n'], "")).map_err(|_| NOT_PEM)?;
    let block = Pem::iter_from_buffer(&pem).next().and_then(Result::ok).ok_or(NOT_PEM)?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(NOT_PEM);
    }
    let (_, parsed) =
        X509CertificationRequest::from_der(&block.contents).map_err(|_| "it is not a certificate request")?;
    let names = parsed.certification_request_info.subject.iter_common_name();
    Ok(names.last().and_then(|name| name.as_str().ok()).map(str::to_owned))
}
