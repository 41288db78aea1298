//! Private keys in PEM: written in SEC 1, read in SEC 1 and PKCS #8.
//!
//! kubeadm, Go and OpenSSL write ECDSA keys in SEC 1 (`EC PRIVATE KEY`), and Java's fabric8 client reads no other form of
//! them. rcgen knows PKCS #8 only, so both conversions are here.

use std::fmt;

use rcgen::KeyPair;
use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::pem::Pem;

use super::{certificate, der};

/// The label of SEC 1 keys in PEM (RFC 5915, section 4).
const EC_PRIVATE_KEY: &str = "EC PRIVATE KEY";

/// `id-ecPublicKey`, the algorithm of ECDSA keys (RFC 5480).
const EC_PUBLIC_KEY: &[u32] = &[1, 2, 840, 10045, 2, 1];

/// The curves that rcgen can sign with: `secp256r1` and `secp384r1` (RFC 5480).
const CURVES: [&[u32]; 2] = [&[1, 2, 840, 10045, 3, 1, 7], &[1, 3, 132, 0, 34]];

/// Context-specific tags in `ECPrivateKey`.
const PARAMETERS: u8 = 0;
const PUBLIC_KEY: u32 = 1;

/// A private key in PEM. `Debug` does not print it.
#[derive(Clone)]
pub(crate) struct PrivateKey(String);

impl PrivateKey {
    pub(super) fn new(pem: String) -> Self {
        Self(pem)
    }

    /// Writes a key in SEC 1 if it is an ECDSA key, otherwise in PKCS #8.
    pub(super) fn of(pair: &KeyPair) -> Self {
        match sec1(&pair.serialize_der()) {
            Some(key) => Self(certificate::pem(EC_PRIVATE_KEY, &key)),
            None => Self(pair.serialize_pem()),
        }
    }

    /// The PEM text. It must not be logged.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// Parses the first private key of a PEM text.
pub(super) fn parse(text: &str) -> Option<KeyPair> {
    let blocks = Pem::iter_from_buffer(text.as_bytes()).filter_map(Result::ok);
    // OpenSSL writes the curve in a block of its own before the key.
    let key = blocks.into_iter().find(|block| block.label.ends_with("PRIVATE KEY"))?;
    if key.label == EC_PRIVATE_KEY {
        return CURVES.iter().find_map(|curve| KeyPair::try_from(pkcs8(&key.contents, curve)).ok());
    }
    KeyPair::from_pem(text).ok()
}

/// The `ECPrivateKey` (RFC 5915) in a PKCS #8 key, with its curve, which PKCS #8 holds outside of it. `None` for keys of
/// other algorithms.
fn sec1(pkcs8: &[u8]) -> Option<Vec<u8>> {
    let outer = sequence(pkcs8)?;
    let [_version, algorithm, key, ..] = outer.as_slice() else { return None };
    let curve = CURVES.iter().map(|curve| der::oid(curve)).find(|curve| {
        let expected = [der::oid(EC_PUBLIC_KEY), curve.clone()].concat();
        algorithm.data == expected
    })?;
    let inner = sequence(key.data)?;
    let [_version, scalar, rest @ ..] = inner.as_slice() else { return None };
    let public = rest.iter().find(|part| part.header.tag() == Tag(PUBLIC_KEY))?;
    let public = Any::from_der(public.data).ok()?.1;
    Some(der::sequence(&[
        der::integer(&[1]),
        der::octet_string(scalar.data),
        der::explicit(PARAMETERS, &curve),
        der::explicit(1, &der::bit_string(public.data.strip_prefix(&[0])?)),
    ]))
}

/// A PKCS #8 key around an `ECPrivateKey` of this curve.
fn pkcs8(sec1: &[u8], curve: &[u32]) -> Vec<u8> {
    der::sequence(&[
        der::integer(&[0]),
        der::sequence(&[der::oid(EC_PUBLIC_KEY), der::oid(curve)]),
        der::octet_string(sec1),
    ])
}

/// The elements of a DER sequence.
fn sequence(der: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, whole) = Any::from_der(der).ok()?;
    let mut rest = whole.data;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (after, part) = Any::from_der(rest).ok()?;
        parts.push(part);
        rest = after;
    }
    (whole.header.tag() == Tag::Sequence).then_some(parts)
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData};

    use super::*;

    #[test]
    fn debug_output_hides_the_key() {
        assert_eq!(format!("{:?}", PrivateKey::new("secret".to_owned())), "PrivateKey(..)");
    }

    #[test]
    fn ecdsa_key_is_written_in_sec1_and_read_in_both_forms() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let written = PrivateKey::of(&pair);
            assert!(written.expose().starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{algorithm:?}");
            let read = parse(written.expose()).unwrap();
            assert_eq!(read.der_bytes(), pair.der_bytes());
            // Also when it was read from SEC 1 itself.
            assert_eq!(PrivateKey::of(&read).expose(), written.expose());
            assert_eq!(parse(&pair.serialize_pem()).unwrap().der_bytes(), pair.der_bytes());
        }
    }

    #[test]
    fn key_of_another_algorithm_is_written_in_pkcs8() {
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let written = PrivateKey::of(&pair);
        assert!(written.expose().starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_eq!(parse(written.expose()).unwrap().der_bytes(), pair.der_bytes());
    }

    /// Written by `openssl ecparam -name prime256v1 -genkey`, for this test.
    const OPENSSL: &str = "\
-----BEGIN EC PARAMETERS-----\n\
BggqhkjOPQMBBw==\n\
-----END EC PARAMETERS-----\n\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIMCcKFvDOHejeGZFeQ1U2A8rdbo04zGAzFAPdwSaEvVxoAoGCCqGSM49\n\
AwEHoUQDQgAE3xNGiY1YYRF/Pn8aWOCLsR1MRWvd6kRA/bc751taj6dlejL7QDVh\n\
Yye5t/feVPRZS+cUmwsQBtaNmgmJcBb/WQ==\n\
-----END EC PRIVATE KEY-----\n\
";

    #[test]
    fn key_of_openssl_with_its_parameters_is_read() {
        let pair = parse(OPENSSL).unwrap();
        assert!(OPENSSL.ends_with(PrivateKey::of(&pair).expose()));
    }

    #[test]
    fn malformed_keys_are_rejected() {
        for text in ["", "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n"] {
            assert!(parse(text).is_none(), "{text:?}");
        }
    }
}
