//! Credentials issued by controllers: certificates for signing requests, and tokens in Secrets. Each is
//! valid only in the cluster of its object.

use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::{ApiServer, LegacySubject, RotatingSigner, TokenSigner, issue_legacy};
use coracle_controllers::{CertificateSigner, SignError, TokenSubject, TokenWriter};
use coracle_runtime::ClusterId;

use crate::rotation::CurrentSigner;

/// Signs certificate requests with the current authority.
pub(crate) fn certificate_signer(
    server: &ApiServer,
    authority: Arc<CurrentSigner>,
) -> Arc<dyn CertificateSigner> {
    Arc::new(ScopedSigner { server: server.clone(), authority })
}

/// Issues the service account tokens that are stored in Secrets.
pub(crate) fn token_writer(server: &ApiServer, signer: Arc<RotatingSigner>) -> TokenWriter {
    let server = server.clone();
    TokenWriter::new(move |subject| {
        let TokenSubject { cluster, namespace, account, account_uid, secret } = *subject;
        let cluster = server.cluster_reference(cluster.as_str()).ok()?;
        let subject = LegacySubject { cluster: &cluster, namespace, account, account_uid, secret };
        issue_legacy(signer.current(), &subject).ok()
    })
}

struct ScopedSigner {
    server: ApiServer,
    authority: Arc<CurrentSigner>,
}

impl CertificateSigner for ScopedSigner {
    fn sign(
        &self,
        cluster: &ClusterId,
        request: &[u8],
        usages: &[String],
        life: Duration,
    ) -> Result<String, SignError> {
        let failed = |error: &dyn std::error::Error| SignError(error.to_string());
        let scope = self.server.cluster_reference(cluster.as_str()).map_err(|error| failed(&error))?;
        self.authority.sign(request, scope.into(), usages, life).map_err(|error| failed(&error))
    }
}
