//! User identities, and how they are read from client certificates.
//!
//! A certificate is read only after it has been verified against the CA of the cluster. Authorization happens
//! elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
pub use coracle_registry::Identity;
use x509_parser::der_parser::oid;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME, Oid};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use crate::credential_scope::CredentialScope;

/// The key in a user's `extra` for the ID of the credential, as in kube-apiserver (`CredentialIDKey` in
/// `pkg/authentication/user` of k8s.io/apiserver).
pub const CREDENTIAL_ID_KEY: &str = "authentication.kubernetes.io/credential-id";

/// The subject attribute with a user's UID (`X509UID` in `pkg/apis/asn1` of k8s.io/apimachinery).
const OID_KUBERNETES_UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The identity that the client proved in the TLS handshake. Every request carries this in its extensions; requests
/// over a stream without handshake have no identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentity(pub Option<Arc<Identity>>);

/// Marks requests that came over a network, in their extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote;

/// The authenticated sender of a request, before impersonation.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) identity: Arc<Identity>,
    /// True if the credential is valid for every cluster, for requests to all clusters at once and for the admin API of
    /// the server. Only an operator's certificate and components of this process have it
    /// ([`CredentialScope::AllClusters`]); no name, group, token or header grants it. Impersonation never passes it on:
    /// check it together with [`Caller::acts_as`].
    pub(crate) all_clusters: bool,
}

impl Caller {
    /// Returns true if a request is made under the caller's own identity, without impersonation. Requests to all
    /// clusters at once and to the admin API of the server require this.
    pub(crate) fn acts_as(&self, identity: &Arc<Identity>) -> bool {
        Arc::ptr_eq(&self.identity, identity)
    }
}

/// The verification result of the client certificate from the TLS handshake. If there was one, requests carry this in
/// their extensions beside the [`PeerIdentity`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    pub(crate) vouched_for: bool,
    pub(crate) scope: CredentialScope,
    pub(crate) front_proxy: Option<Arc<str>>,
    pub(crate) not_after: Timestamp,
}

impl PeerCertificate {
    /// Returns true if a client CA signed it. If not, it is an invalid credential.
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.vouched_for
    }

    /// The clusters that the holder may authenticate to. Does not apply to the certificate of a front proxy.
    pub(crate) fn scope(&self) -> &CredentialScope {
        &self.scope
    }

    /// The common name, if the front proxy CA signed the certificate.
    pub(crate) fn front_proxy(&self) -> Option<&str> {
        self.front_proxy.as_deref()
    }

    /// The time until it expires.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        self.not_after.since(now)
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        now > self.not_after
    }
}

/// The group of all authenticated users, as in Kubernetes.
const AUTHENTICATED: &str = "system:authenticated";

/// The user and the group of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Adds the group `system:authenticated` to an identity, except to the anonymous user.
pub fn authenticated(mut identity: Identity) -> Identity {
    let is_status_group = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if identity.name != ANONYMOUS && !identity.groups.iter().any(is_status_group) {
        identity.groups.push(AUTHENTICATED.to_owned());
    }
    identity
}

/// The prefix of user names of nodes, and the group of nodes, as in Kubernetes.
pub(crate) const NODE_USER_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";

/// Returns the name of the node that a user is, if it is a node; empty if the user name lacks the node's name.
pub fn node_name(identity: &Identity) -> Option<&str> {
    let name = identity.name.strip_prefix(NODE_USER_PREFIX)?;
    identity.groups.iter().any(|group| group == NODES).then_some(name)
}

/// Reads the identity from a client certificate in DER: the common name is the user, organizations are groups. None if
/// it has no common name, or more than one UID.
pub fn from_certificate(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    // Of several common names the last counts, as in Go.
    let name = texts(subject, &OID_X509_COMMON_NAME).pop().filter(|name| !name.is_empty())?;
    let groups = texts(subject, &OID_X509_ORGANIZATION_NAME);
    let extra = BTreeMap::from([(CREDENTIAL_ID_KEY.to_owned(), vec![fingerprint(der)])]);
    Some(Identity { name, uid: uid(subject)?, groups, extra })
}

/// Returns the common name, which may be empty, and the expiry of a certificate in DER.
pub(crate) fn name_and_end(der: &[u8]) -> Option<(String, Timestamp)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = texts(certificate.subject(), &OID_X509_COMMON_NAME).pop().unwrap_or_default();
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    // A certificate is valid until the end of its last second.
    Some((name, Timestamp::from_millis(seconds.saturating_mul(1000).saturating_add(999))))
}

/// Reads the UID attribute: an empty text if there is none; None if there are several or it cannot be read.
fn uid(subject: &X509Name<'_>) -> Option<String> {
    let found = subject.iter_by_oid(&OID_KUBERNETES_UID).count();
    match (found, texts(subject, &OID_KUBERNETES_UID).pop()) {
        (0, _) => Some(String::new()),
        (1, Some(uid)) if !uid.is_empty() => Some(uid),
        _ => None,
    }
}

fn texts(subject: &X509Name<'_>, attribute: &Oid<'_>) -> Vec<String> {
    subject.iter_by_oid(attribute).filter_map(|value| value.as_str().ok()).map(str::to_owned).collect()
}

/// The credential ID of a certificate, in kube-apiserver's format.
fn fingerprint(der: &[u8]) -> String {
    let mut text = "X509SHA256=".to_owned();
    for byte in ring::digest::digest(&ring::digest::SHA256, der).as_ref() {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    /// The identity read from a certificate with these subject attributes.
    fn read(attributes: &[(DnType, &str)]) -> Option<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (attribute, value) in attributes {
            params.distinguished_name.push(attribute.clone(), *value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        from_certificate(certificate.der())
    }

    fn uid_attribute() -> DnType {
        DnType::CustomDnType(OID_KUBERNETES_UID.iter().unwrap().collect())
    }

    #[test]
    fn common_name_is_the_user_and_organization_a_group() {
        let admin =
            read(&[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "kubernetes-admin")]);
        let admin = admin.unwrap();
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("kubernetes-admin", ""));
        assert_eq!(admin.groups, ["system:masters"]);
        let id = &admin.extra[CREDENTIAL_ID_KEY][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == "X509SHA256=".len() + 64, "{id}");
    }

    #[test]
    fn uid_attribute_is_read() {
        let user = read(&[(DnType::CommonName, "me"), (uid_attribute(), "1234")]).unwrap();
        assert_eq!((user.uid.as_str(), user.groups.len()), ("1234", 0));
        assert_eq!(read(&[(DnType::CommonName, "me"), (uid_attribute(), "")]), None);
    }

    #[test]
    fn node_name_requires_the_name_prefix_and_the_group() {
        let check = |name: &str, groups: &[&str], expected: Option<&str>| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let identity = Identity { name: name.to_owned(), groups, ..Identity::default() };
            assert_eq!(node_name(&identity), expected, "{name}");
        };
        check("system:node:a", &["other", "system:nodes"], Some("a"));
        check("system:node:", &["system:nodes"], Some(""));
        check("system:node:a", &["system:masters"], None);
        check("a", &["system:nodes"], None);
        check("system:nodes:a", &["system:nodes"], None);
    }

    #[test]
    fn certificate_without_common_name_has_no_identity() {
        assert_eq!(read(&[(DnType::OrganizationName, "system:masters")]), None);
        assert_eq!(read(&[(DnType::CommonName, "")]), None);
        assert_eq!(from_certificate(b"no certificate"), None);
        assert_eq!(from_certificate(&[]), None);
    }
}
