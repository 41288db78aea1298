//! The clusters that a credential is valid for, and the X.509 extension that carries this.
//!
//! Every client certificate that this server issues names one cluster, by its id and creation uid, or all
//! clusters. The signer stamps the extension; it is never copied from a certificate signing request. See
//! `docs/adr/0012-credential-scopes.md`.

use std::sync::Arc;

use coracle_registry::Cluster;
use x509_parser::asn1_rs::{Any, FromDer, Null, Sequence, Tag, ToDer, Utf8String};
use x509_parser::der_parser::oid;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::X509Certificate;

use coracle_registry::DEFAULT_CLUSTER;

/// Object identifier of the extension, as arcs.
///
/// Derived from the UUID c8f2196f-4e3d-498d-8f2c-bfaac5b8cdf0 below the arc that Microsoft gives to everyone with a
/// UUID, split into small numbers. The arc 2.25 takes a UUID as one number, and Go's parser rejects certificates with
/// numbers above 31 bits, so kubectl could not load them.
pub const SCOPE_EXTENSION: &[u32] =
    &[1, 2, 840, 113_556, 1, 8000, 2554, 51_442, 6511, 20_029, 18_829, 36_652, 12_561_093, 12_111_344];

const SCOPE_OID: Oid<'static> =
    oid!(1.2.840.113556.1.8000.2554.51442.6511.20029.18829.36652.12561093.12111344);

/// The clusters that a credential is valid for.
///
/// Components in this process put it into the extensions of their requests, beside their
/// [`PeerIdentity`](crate::PeerIdentity). A request that came over the network cannot carry extensions, and
/// authentication ignores this one on such requests in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialScope {
    /// The default cluster. It cannot be re-created, so its uid does not matter.
    DefaultCluster,
    /// Another cluster.
    Cluster(Arc<ClusterReference>),
    /// Every cluster, requests to all clusters at once, and the admin API of the server: the operator.
    AllClusters,
}

/// One cluster among all that ever had its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReference {
    /// The id in the path.
    pub id: String,
    /// The uid that the cluster got when it was created.
    pub uid: String,
}

impl ClusterReference {
    /// The default cluster.
    pub fn default_cluster() -> Self {
        Self { id: DEFAULT_CLUSTER.to_owned(), uid: String::new() }
    }

    pub(crate) fn is_default(&self) -> bool {
        self.id == DEFAULT_CLUSTER
    }
}

impl From<&Cluster> for ClusterReference {
    fn from(cluster: &Cluster) -> Self {
        Self { id: cluster.id().to_owned(), uid: cluster.uid().to_owned() }
    }
}

impl From<ClusterReference> for CredentialScope {
    fn from(cluster: ClusterReference) -> Self {
        if cluster.is_default() { Self::DefaultCluster } else { Self::Cluster(Arc::new(cluster)) }
    }
}

/// The scope extension of a certificate is malformed or occurs twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster scope extension of the certificate is malformed")]
pub struct MalformedScope;

impl CredentialScope {
    /// The scope of credentials of the cluster with this id and creation uid.
    pub fn of_cluster(id: &str, uid: &str) -> Self {
        ClusterReference { id: id.to_owned(), uid: uid.to_owned() }.into()
    }

    pub(crate) fn of(cluster: &Cluster) -> Self {
        ClusterReference::from(cluster).into()
    }

    /// Returns true if the credential is valid in a cluster.
    pub(crate) fn covers(&self, cluster: &Cluster) -> bool {
        self.covers_id(cluster.id(), cluster.uid())
    }

    fn covers_id(&self, id: &str, uid: &str) -> bool {
        match self {
            Self::AllClusters => true,
            Self::DefaultCluster => id == DEFAULT_CLUSTER,
            Self::Cluster(scope) => scope.id == id && scope.uid == uid,
        }
    }

    /// Reads the scope from a certificate. A certificate without the extension, such as one that a CA of the user
    /// issued, is valid for the default cluster only.
    ///
    /// # Errors
    /// If the extension is malformed.
    pub fn of_certificate(certificate: &X509Certificate<'_>) -> Result<Self, MalformedScope> {
        let mut found = certificate.extensions().iter().filter(|extension| extension.oid == SCOPE_OID);
        match (found.next(), found.next()) {
            (None, _) => Ok(Self::DefaultCluster),
            (Some(extension), None) => Self::from_der(extension.value).ok_or(MalformedScope),
            (Some(_), Some(_)) => Err(MalformedScope),
        }
    }

    /// Reads the scope from a certificate in DER.
    ///
    /// # Errors
    /// If it is not a certificate, or its extension is malformed.
    pub fn of_certificate_der(der: &[u8]) -> Result<Self, MalformedScope> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| MalformedScope)?;
        Self::of_certificate(&certificate)
    }

    /// The value of the extension in DER: `NULL` for all clusters, otherwise
    /// `SEQUENCE { id UTF8String, uid UTF8String }`.
    pub fn to_der(&self) -> Vec<u8> {
        let (id, uid) = match self {
            Self::AllClusters => return written(&Null::new()),
            Self::DefaultCluster => (DEFAULT_CLUSTER, ""),
            Self::Cluster(scope) => (scope.id.as_str(), scope.uid.as_str()),
        };
        let content = [written(&Utf8String::new(id)), written(&Utf8String::new(uid))].concat();
        written(&Sequence::new(content.into()))
    }

    fn from_der(value: &[u8]) -> Option<Self> {
        let (rest, any) = Any::from_der(value).ok()?;
        if !rest.is_empty() {
            return None;
        }
        if any.tag() == Tag::Null {
            return any.data.is_empty().then_some(Self::AllClusters);
        }
        let sequence = Sequence::try_from(any).ok()?;
        let (rest, id) = Utf8String::from_der(&sequence.content).ok()?;
        let (rest, uid) = Utf8String::from_der(rest).ok()?;
        let (id, uid) = (id.string(), uid.string());
        (rest.is_empty() && !id.is_empty()).then(|| Self::of_cluster(&id, &uid))
    }
}

fn written(value: &impl ToDer) -> Vec<u8> {
    value.to_der_vec().expect("a Vec takes everything")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;

    fn certificate(extensions: &[&[u8]]) -> Vec<u8> {
        let arcs: Vec<u64> = SCOPE_EXTENSION.iter().copied().map(u64::from).collect();
        let mut params = CertificateParams::default();
        let extensions = extensions.iter();
        params.custom_extensions =
            extensions.map(|value| CustomExtension::from_oid_content(&arcs, value.to_vec())).collect();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn read(extensions: &[&[u8]]) -> Result<CredentialScope, MalformedScope> {
        CredentialScope::of_certificate_der(&certificate(extensions))
    }

    #[test]
    fn scope_written_to_a_certificate_is_read_back() {
        let long = CredentialScope::of_cluster(&"a".repeat(253), "uid");
        let scopes = [
            CredentialScope::AllClusters,
            CredentialScope::DefaultCluster,
            CredentialScope::of_cluster("t1", "u1"),
            CredentialScope::of_cluster("t1", ""),
            long,
        ];
        for scope in scopes {
            assert_eq!(read(&[&scope.to_der()]), Ok(scope));
        }
    }

    #[test]
    fn certificate_without_extension_is_valid_for_the_default_cluster_only() {
        assert_eq!(read(&[]), Ok(CredentialScope::DefaultCluster));
    }

    #[test]
    fn malformed_extension_is_rejected() {
        let one = CredentialScope::of_cluster("t1", "u1").to_der();
        let all = CredentialScope::AllClusters.to_der();
        assert_eq!(read(&[&one, &one]), Err(MalformedScope), "twice");
        assert_eq!(read(&[&one, &all]), Err(MalformedScope), "two scopes");
        let longer = [one.as_slice(), &[0]].concat();
        let empty_id = CredentialScope::of_cluster("", "u1").to_der();
        let number = [0x05, 0x01, 0x00];
        for value in [&[][..], &[0x30, 0x00], &longer, &one[..one.len() - 1], &empty_id, &number, b"nonsense"]
        {
            assert_eq!(read(&[value]), Err(MalformedScope), "{value:02x?}");
        }
    }

    #[test]
    fn scope_covers_its_own_cluster_only() {
        let own = CredentialScope::of_cluster("t1", "u1");
        assert!(own.covers_id("t1", "u1"));
        assert!(!own.covers_id("t2", "u1") && !own.covers_id("default", ""));
        assert!(!own.covers_id("t1", "u2"), "a re-created id is another cluster");
        let default = CredentialScope::DefaultCluster;
        assert!(default.covers_id("default", "") && !default.covers_id("t1", "u1"));
        let all = CredentialScope::AllClusters;
        assert!(all.covers_id("default", "") && all.covers_id("t1", "u1"));
    }
}
