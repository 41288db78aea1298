//! Certificate signing requests: approves those of nodes, signs approved ones, and deletes old ones. Kubernetes'
//! `pkg/controller/certificates`.

pub(crate) mod approver;
pub(crate) mod cleaner;
mod object;
mod request;
pub(crate) mod signer;

use std::time::Duration;

use coracle_runtime::{ClusterId, Informer, Manager, ObjectKey, Objects, Selection, Written};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use object::SigningRequest;

/// Field manager of these controllers.
const MANAGER: &str = "kube-controller-manager";

/// Signer of client certificates for kube-apiserver.
const API_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of kubelets' client certificates.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of kubelets' serving certificates.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signer for any usage, from before there were signer names.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Signs certificates.
pub trait CertificateSigner: Send + Sync {
    /// Returns the certificate in PEM for a request (PKCS #10, in DER) with these usages, named as in the API. It is
    /// valid in the cluster of the request only, and may have a shorter lifetime than `life`.
    ///
    /// # Errors
    /// If the request is not signed with its own key, or the signer is not able to sign now.
    fn sign(
        &self,
        cluster: &ClusterId,
        request: &[u8],
        usages: &[String],
        life: Duration,
    ) -> Result<String, SignError>;
}

/// Why a request was not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignError(pub String);

fn informer(manager: &mut Manager) -> Informer<SigningRequest> {
    manager.informer(Selection::of::<CertificateSigningRequest>())
}

/// Patches a subresource of a request. A missing or outdated request is not an error, because its change enqueues the
/// key again.
async fn patch_part(
    requests: &Objects,
    key: &ObjectKey,
    part: &str,
    patch: &Value,
) -> Result<(), kube::Error> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match requests.patch_subresource::<Written>(key, part, &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        answer => answer.map(drop),
    }
}
