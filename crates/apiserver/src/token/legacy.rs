//! Legacy tokens, which are stored in secrets and do not expire (`pkg/serviceaccount/legacy.go` of Kubernetes).

use serde::{Deserialize, Serialize};

use super::claims::{ClusterClaims, issue};
use super::issuer;
use super::signer::{SignerError, TokenSigner};
use crate::credential_scope::ClusterReference;

/// The issuer of legacy tokens in the default cluster, whatever the server's issuer is. In other clusters the cluster
/// id follows, as in all issuers.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The account and the secret of a legacy token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacySubject<'a> {
    /// Cluster of the account and of the secret.
    pub cluster: &'a ClusterReference,
    /// Namespace of the account and of the secret.
    pub namespace: &'a str,
    /// Name of the account.
    pub account: &'a str,
    /// UID of the account.
    pub account_uid: &'a str,
    /// Name of the secret.
    pub secret: &'a str,
}

/// The claims of a legacy token, in the order in which they are serialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LegacyClaims {
    /// The cluster that the token is valid for.
    #[serde(flatten)]
    pub(crate) cluster: ClusterClaims,
    #[serde(default)]
    pub(crate) iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", default)]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", default)]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name", default)]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid", default)]
    pub(crate) account_uid: String,
    #[serde(default)]
    pub(crate) sub: String,
}

/// Issues a legacy token.
///
/// # Errors
/// If the key cannot be used.
pub fn issue_legacy(signer: &dyn TokenSigner, subject: &LegacySubject<'_>) -> Result<String, SignerError> {
    let LegacySubject { cluster, namespace, account, account_uid, secret } = *subject;
    let claims = LegacyClaims {
        cluster: cluster.clone().into(),
        iss: issuer::of_cluster(LEGACY_ISSUER, &cluster.id).into_owned(),
        namespace: namespace.to_owned(),
        secret: secret.to_owned(),
        account: account.to_owned(),
        account_uid: account_uid.to_owned(),
        sub: format!("system:serviceaccount:{namespace}:{account}"),
    };
    issue(signer, &claims)
}
