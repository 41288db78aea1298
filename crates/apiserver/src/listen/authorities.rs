//! Verifies chains of client certificates, including the `pathLenConstraint` of the CAs.
//!
//! webpki reduces a CA to a trust anchor, which is a name and a key: it checks `pathLenConstraint` of intermediate
//! certificates, but not that of the CA. Go does check it, so kube-apiserver rejects an intermediate below a CA with
//! `pathlen:0`. CAs are therefore grouped by their path length, and the verifier of a group gets only as many
//! intermediates as the group allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{DistinguishedName, RootCertStore};
use x509_parser::parse_x509_certificate;

use super::tls::TlsError;

/// CA certificates that sign client certificates.
#[derive(Debug)]
pub(super) struct Authorities(Vec<Group>);

/// CAs that allow the same number of intermediates.
#[derive(Debug)]
struct Group {
    max_intermediates: usize,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let mut roots = BTreeMap::<usize, RootCertStore>::new();
        for certificate in certificates {
            let group = roots.entry(max_intermediates(&certificate)).or_insert_with(RootCertStore::empty);
            group.add(certificate).map_err(|error| TlsError::ClientCa(error.into()))?;
        }
        let group = |(max_intermediates, roots)| {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let verifier = verifier.allow_unauthenticated().build();
            let verifier = verifier.map_err(|error| TlsError::ClientCa(error.into()))?;
            Ok(Group { max_intermediates, verifier })
        };
        Ok(Self(roots.into_iter().map(group).collect::<Result<_, _>>()?))
    }

    /// Returns true if a CA has signed the chain, which begins with the client's own certificate, and it is valid now.
    pub(super) fn vouch_for(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some((own, intermediates)) = chain.split_first() else { return false };
        self.0.iter().any(|group| {
            // Issuers come after the certificates they sign, so a path begins with the first ones.
            let allowed = &intermediates[..intermediates.len().min(group.max_intermediates)];
            group.verifier.verify_client_cert(own, allowed, UnixTime::now()).is_ok()
        })
    }

    /// The names of all CAs.
    pub(super) fn names(&self) -> impl Iterator<Item = &DistinguishedName> {
        self.0.iter().flat_map(|group| group.verifier.root_hint_subjects())
    }
}

/// Returns the number of intermediate certificates that a CA allows. It is 0 for a CA that cannot be parsed, which
/// webpki rejects anyway.
fn max_intermediates(authority: &CertificateDer<'_>) -> usize {
    let Ok((_, certificate)) = parse_x509_certificate(authority) else { return 0 };
    match certificate.basic_constraints() {
        Ok(constraints) => constraints
            .and_then(|constraints| constraints.value.path_len_constraint)
            .map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX)),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use tokio_rustls::rustls::crypto::ring;

    use super::*;

    /// A certificate, and the key to sign others with it.
    struct Signer {
        certificate: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    fn ca(name: &str, constraints: BasicConstraints) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(constraints);
        params
    }

    impl Signer {
        fn root(constraints: BasicConstraints) -> Self {
            let (params, key) = (ca("root", constraints), KeyPair::generate().unwrap());
            let certificate = params.self_signed(&key).unwrap().der().clone();
            Self { certificate, issuer: Issuer::new(params, key) }
        }

        fn intermediate(&self, name: &str, constraints: BasicConstraints) -> Self {
            let (params, key) = (ca(name, constraints), KeyPair::generate().unwrap());
            let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
            Self { certificate, issuer: Issuer::new(params, key) }
        }

        fn client(&self) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap().der().clone()
        }
    }

    fn vouched_for(roots: &[&Signer], chain: &[CertificateDer<'static>]) -> bool {
        let roots = roots.iter().map(|root| root.certificate.clone()).collect();
        Authorities::new(roots, &Arc::new(ring::default_provider())).unwrap().vouch_for(chain)
    }

    #[test]
    fn chain_of_an_intermediate_below_pathlen_0_is_rejected() {
        let root = Signer::root(BasicConstraints::Constrained(0));
        let below = root.intermediate("below", BasicConstraints::Unconstrained);
        assert!(!vouched_for(&[&root], &[below.client(), below.certificate.clone()]));
        assert!(vouched_for(&[&root], &[root.client()]));
        // Certificates that are not part of the path do not matter.
        assert!(vouched_for(&[&root], &[root.client(), root.certificate.clone()]));
    }

    #[test]
    fn chain_as_long_as_the_authority_allows_is_accepted() {
        for (allowed, accepted) in [
            (BasicConstraints::Unconstrained, true),
            (BasicConstraints::Constrained(2), true),
            (BasicConstraints::Constrained(1), false),
        ] {
            let root = Signer::root(allowed);
            let first = root.intermediate("first", BasicConstraints::Unconstrained);
            let second = first.intermediate("second", BasicConstraints::Unconstrained);
            assert!(vouched_for(&[&root], &[first.client(), first.certificate.clone()]));
            let chain = [second.client(), second.certificate.clone(), first.certificate.clone()];
            assert_eq!(vouched_for(&[&root], &chain), accepted, "{:?}", root.issuer);
        }
    }

    #[test]
    fn chain_that_exceeds_the_pathlen_of_an_intermediate_is_rejected() {
        let root = Signer::root(BasicConstraints::Unconstrained);
        let first = root.intermediate("first", BasicConstraints::Constrained(0));
        let second = first.intermediate("second", BasicConstraints::Unconstrained);
        let chain = [second.client(), second.certificate.clone(), first.certificate.clone()];
        assert!(!vouched_for(&[&root], &chain));
        assert!(vouched_for(&[&root], &[first.client(), first.certificate.clone()]));
    }

    #[test]
    fn path_length_of_one_ca_does_not_constrain_another() {
        let strict = Signer::root(BasicConstraints::Constrained(0));
        let free = Signer::root(BasicConstraints::Unconstrained);
        let below = free.intermediate("below", BasicConstraints::Unconstrained);
        let chain = [below.client(), below.certificate.clone()];
        assert!(vouched_for(&[&strict, &free], &chain));
        assert!(!vouched_for(&[&strict], &chain));
    }
}
