//! Encoding and signing of certificates (RFC 5280).
//!
//! Implemented here because the groups of a user are several organizations in one subject, which the
//! library that generates the keys does not support.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coracle_apiserver::{CredentialScope, SCOPE_EXTENSION};
use coracle_base::Timestamp;
use rcgen::{KeyPair, SigningKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::der;

/// Subject attributes, by the object identifiers of RFC 5280.
pub(super) const COMMON_NAME: &[u32] = &[2, 5, 4, 3];
pub(super) const ORGANIZATION: &[u32] = &[2, 5, 4, 10];

const SUBJECT_KEY_ID: &[u32] = &[2, 5, 29, 14];
const KEY_USAGE: &[u32] = &[2, 5, 29, 15];
const ALTERNATIVE_NAMES: &[u32] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u32] = &[2, 5, 29, 19];
const AUTHORITY_KEY_ID: &[u32] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u32] = &[2, 5, 29, 37];

/// Number of random bytes in a serial number, as in kube-controller-manager's signer.
const SERIAL_BYTES: usize = 16;

/// Number of digest bytes in a key identifier (RFC 7093, 2.1).
const KEY_ID_BYTES: usize = 20;

/// Characters in a line of PEM (RFC 7468).
const PEM_LINE: usize = 64;

/// Key usages, by the bit numbers of RFC 5280.
pub(super) const DIGITAL_SIGNATURE: u8 = 0;
pub(super) const KEY_CERT_SIGN: u8 = 5;

/// Extended key usages.
pub(super) const SERVER_AUTH: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
pub(super) const CLIENT_AUTH: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AlternativeName {
    Email(String),
    Dns(String),
    Uri(String),
    Ip(IpAddr),
}

impl AlternativeName {
    fn der(&self) -> Vec<u8> {
        match self {
            AlternativeName::Email(text) => der::implicit(1, text.as_bytes()),
            AlternativeName::Dns(text) => der::implicit(2, text.as_bytes()),
            AlternativeName::Uri(text) => der::implicit(6, text.as_bytes()),
            AlternativeName::Ip(IpAddr::V4(ip)) => der::implicit(7, &ip.octets()),
            AlternativeName::Ip(IpAddr::V6(ip)) => der::implicit(7, &ip.octets()),
        }
    }
}

/// The contents of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Template<'a> {
    /// The attributes of the subject in their order.
    pub(super) subject: Vec<(&'a [u32], String)>,
    pub(super) names: Vec<AlternativeName>,
    /// Bits of the key usage.
    pub(super) usages: BTreeSet<u8>,
    /// Object identifiers of extended key usages.
    pub(super) extended_usages: Vec<&'a [u32]>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// True if it may sign certificates, but not of other authorities.
    pub(super) is_authority: bool,
    /// The clusters that a client certificate is valid for.
    pub(super) scope: Option<CredentialScope>,
}

/// The signing authority.
#[derive(Clone, Copy)]
pub(super) struct Signer<'a> {
    /// The subject in DER; none if self-signed.
    pub(super) name: Option<&'a [u8]>,
    /// The subject key identifier of its certificate.
    pub(super) key_id: Option<&'a [u8]>,
    pub(super) key: &'a KeyPair,
}

/// Why a certificate cannot be created. Never contains key material.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CertificateError {
    #[error("the system has no randomness for a serial number")]
    NoRandomness,
    #[error("the authority's key is of a kind that is not supported")]
    UnsupportedKey,
    #[error("the key cannot sign")]
    Sign(#[source] rcgen::Error),
}

/// The certificate in DER, for the public key with this `SubjectPublicKeyInfo`.
pub(super) fn signed(
    template: &Template<'_>,
    public_key: &[u8],
    signer: &Signer<'_>,
) -> Result<Vec<u8>, CertificateError> {
    let algorithm = algorithm(signer.key)?;
    let subject = name(&template.subject);
    let body = der::sequence(&[
        der::explicit(0, &der::integer(&[2])),
        der::integer(&serial()?),
        algorithm.clone(),
        signer.name.map_or_else(|| subject.clone(), <[u8]>::to_vec),
        der::sequence(&[der::time(template.not_before), der::time(template.not_after)]),
        subject,
        public_key.to_vec(),
        der::explicit(3, &der::sequence(&extensions(template, public_key, signer))),
    ]);
    let signature = signer.key.sign(&body).map_err(CertificateError::Sign)?;
    Ok(der::sequence(&[body, algorithm, der::bit_string(&signature)]))
}

/// Encodes DER as PEM.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

fn serial() -> Result<[u8; SERIAL_BYTES], CertificateError> {
    let mut bytes = [0; SERIAL_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CertificateError::NoRandomness)?;
    Ok(bytes)
}

/// The signature algorithm of a key.
fn algorithm(key: &KeyPair) -> Result<Vec<u8>, CertificateError> {
    let known = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, der::sequence(&[der::oid(&[1, 2, 840, 10045, 4, 3, 2])])),
        (&rcgen::PKCS_ECDSA_P384_SHA384, der::sequence(&[der::oid(&[1, 2, 840, 10045, 4, 3, 3])])),
        (&rcgen::PKCS_ED25519, der::sequence(&[der::oid(&[1, 3, 101, 112])])),
        (
            &rcgen::PKCS_RSA_SHA256,
            der::sequence(&[der::oid(&[1, 2, 840, 113_549, 1, 1, 11]), der::tagged(0x05, &[])]),
        ),
    ];
    let found = known.into_iter().find(|(kind, _)| key.algorithm() == *kind);
    found.map(|(_, algorithm)| algorithm).ok_or(CertificateError::UnsupportedKey)
}

fn name(attributes: &[(&[u32], String)]) -> Vec<u8> {
    let parts = attributes.iter().map(|(attribute, value)| {
        der::set_of_one(&der::sequence(&[der::oid(attribute), der::utf8_string(value)]))
    });
    der::sequence(&parts.collect::<Vec<_>>())
}

/// The key identifier: the beginning of the digest of the public key.
fn key_id(public_key: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, public_key).as_ref()[..KEY_ID_BYTES].to_vec()
}

fn extensions(template: &Template<'_>, public_key: &[u8], signer: &Signer<'_>) -> Vec<Vec<u8>> {
    let mut extensions = Vec::new();
    if !template.usages.is_empty() {
        let usages: Vec<u8> = template.usages.iter().copied().collect();
        extensions.push(critical(KEY_USAGE, &der::flags(&usages)));
    }
    if !template.extended_usages.is_empty() {
        let usages: Vec<_> = template.extended_usages.iter().map(|usage| der::oid(usage)).collect();
        extensions.push(plain(EXTENDED_KEY_USAGE, &der::sequence(&usages)));
    }
    extensions.push(critical(BASIC_CONSTRAINTS, &constraints(template.is_authority)));
    if template.is_authority {
        extensions.push(plain(SUBJECT_KEY_ID, &der::octet_string(&key_id(public_key))));
    }
    if let Some(id) = signer.key_id {
        extensions.push(plain(AUTHORITY_KEY_ID, &der::sequence(&[der::implicit(0, id)])));
    }
    if !template.names.is_empty() {
        let names: Vec<_> = template.names.iter().map(AlternativeName::der).collect();
        let names = der::sequence(&names);
        // Critical if there is no subject (RFC 5280, 4.2.1.6).
        let write = if template.subject.is_empty() { critical } else { plain };
        extensions.push(write(ALTERNATIVE_NAMES, &names));
    }
    if let Some(scope) = &template.scope {
        // Not critical: Go and OpenSSL reject a certificate with a critical extension that they do not
        // know.
        extensions.push(plain(SCOPE_EXTENSION, &scope.to_der()));
    }
    extensions
}

fn constraints(is_authority: bool) -> Vec<u8> {
    // It signs serving and client certificates, but no authorities.
    let parts = if is_authority { vec![der::boolean_true(), der::integer(&[0])] } else { Vec::new() };
    der::sequence(&parts)
}

fn plain(id: &[u32], value: &[u8]) -> Vec<u8> {
    der::sequence(&[der::oid(id), der::octet_string(value)])
}

fn critical(id: &[u32], value: &[u8]) -> Vec<u8> {
    der::sequence(&[der::oid(id), der::boolean_true(), der::octet_string(value)])
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    fn template() -> Template<'static> {
        Template {
            subject: vec![
                (ORGANIZATION, "one".to_owned()),
                (ORGANIZATION, "two".to_owned()),
                (COMMON_NAME, "jane".to_owned()),
            ],
            names: vec![
                AlternativeName::Dns("a.example".to_owned()),
                AlternativeName::Ip([192, 0, 2, 1].into()),
            ],
            usages: BTreeSet::from([DIGITAL_SIGNATURE]),
            extended_usages: vec![CLIENT_AUTH],
            not_before: Timestamp::from_millis(1_000_000_000_000),
            not_after: Timestamp::from_millis(2_000_000_000_000),
            is_authority: false,
            scope: Some(CredentialScope::of_cluster("t1", "u1")),
        }
    }

    #[test]
    fn encoded_certificate_is_parsed_by_x509_parser() {
        for kind in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
            let key = KeyPair::generate_for(kind).unwrap();
            let signer = Signer { name: None, key_id: Some(b"id"), key: &key };
            let der = signed(&template(), &key.subject_public_key_info(), &signer).unwrap();
            let (rest, read) = X509Certificate::from_der(&der).unwrap();
            assert!(rest.is_empty());
            assert_eq!(read.subject().to_string(), "O=one, O=two, CN=jane");
            assert_eq!(read.validity().not_after.timestamp(), 2_000_000_000);
            assert!(read.key_usage().unwrap().unwrap().value.digital_signature());
            assert!(read.extended_key_usage().unwrap().unwrap().value.client_auth);
            assert_eq!(read.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 2);
            assert!(!read.is_ca());
            assert_eq!(CredentialScope::of_certificate(&read), Ok(template().scope.unwrap()));
            read.verify_signature(Some(read.public_key())).unwrap();
        }
    }

    #[test]
    fn only_an_authority_may_sign_and_no_sub_authority() {
        let key = KeyPair::generate().unwrap();
        let authority = Template { is_authority: true, names: Vec::new(), scope: None, ..template() };
        let signer = Signer { name: None, key_id: None, key: &key };
        let der = signed(&authority, &key.subject_public_key_info(), &signer).unwrap();
        let (_, read) = X509Certificate::from_der(&der).unwrap();
        let constraints = read.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
    }

    #[test]
    fn pem_lines_have_at_most_64_characters() {
        let text = pem("X", &[0; 100]);
        assert!(text.lines().all(|line| line.len() <= PEM_LINE), "{text}");
        assert!(text.starts_with("-----BEGIN X-----\n") && text.ends_with("=\n-----END X-----\n"), "{text}");
    }
}
