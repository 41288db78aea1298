//! Requests for certificates: nodes that may have one are approved, what is approved is signed, and what
//! is over is taken away. Upstream's `pkg/controller/certificates`.

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

/// Who owns what these controllers write.
const MANAGER: &str = "kube-controller-manager";

/// Certificates for clients of the API server.
const API_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Certificates for kubelets as clients of the API server.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Certificates for kubelets as servers.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Certificates for anything, from before there were names for it.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Signs what clients ask for.
pub trait CertificateSigner: Send + Sync {
    /// The certificate for a request (PKCS #10, in DER) for these usages, named as in the API, in PEM. It is valid for
    /// the cluster that the request was made in, and for no other, and may live shorter than `life`.
    ///
    /// # Errors
    /// If the request is not signed by the key it is for, or nothing can be signed now.
    fn sign(
        &self,
        cluster: &ClusterId,
        request: &[u8],
        usages: &[String],
        life: Duration,
    ) -> Result<String, SignError>;
}

/// Why a request is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignError(pub String);

fn informer(manager: &mut Manager) -> Informer<SigningRequest> {
    manager.informer(Selection::of::<CertificateSigningRequest>())
}

/// Changes a part of a request; if it is gone or has changed, that brings its key back.
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
