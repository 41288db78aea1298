//! Certificate signing requests (PKCS #10): signs what they request, as far as our authority supports it.
//! They have been approved before.

use std::collections::BTreeSet;
use std::time::Duration;

use coracle_apiserver::CredentialScope;
use coracle_base::Timestamp;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use super::authority::{Authority, BACKDATE};
use super::certificate::{AlternativeName, CLIENT_AUTH, SERVER_AUTH, Template};
use super::leaf::{self, MAX_LIFE};

/// Certificates with a shorter lifetime end at the requested time. Longer ones end a little earlier, as
/// they begin earlier: the rule of kube-controller-manager's signer.
const SHORT: Duration = Duration::from_hours(8);

/// Subject attributes that are copied, in the order in which Go writes them. If an attribute can occur only
/// once, the last one is used.
const ATTRIBUTES: &[(&[u32], bool)] = &[
    (&[2, 5, 4, 6], true),
    (&[2, 5, 4, 10], true),
    (&[2, 5, 4, 11], true),
    (&[2, 5, 4, 7], true),
    (&[2, 5, 4, 8], true),
    (&[2, 5, 4, 9], true),
    (&[2, 5, 4, 17], true),
    (&[2, 5, 4, 3], false),
    (&[2, 5, 4, 5], false),
];

/// Key usages: their names in the API, and their bits.
const KEY_USAGES: &[(&str, u8)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Extended key usages in the order in which Go writes them.
const EXTENDED_USAGES: &[(&str, &[u32])] = &[
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", SERVER_AUTH),
    ("client auth", CLIENT_AUTH),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", EMAIL_PROTECTION),
    ("s/mime", EMAIL_PROTECTION),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

const EMAIL_PROTECTION: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 3, 4];

/// Why a request is not signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("unable to parse certificate request")]
    Malformed,
    #[error("unable to verify certificate request signature")]
    Signature,
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    #[error("the signer has expired")]
    SignerExpired,
    #[error("failed to sign certificate: {0}")]
    Sign(String),
}

/// Signs a request. Returns the certificate in PEM, valid for the clusters of `scope`. Of the extensions in
/// the request only alternative names are copied, so no request can choose its scope.
pub(super) fn sign(
    authority: &Authority,
    request: &[u8],
    scope: CredentialScope,
    usages: &[String],
    life: Duration,
    now: Timestamp,
) -> Result<String, RequestError> {
    let (rest, request) = X509CertificationRequest::from_der(request).map_err(|_| RequestError::Malformed)?;
    if !rest.is_empty() {
        return Err(RequestError::Malformed);
    }
    request.verify_signature().map_err(|_| RequestError::Signature)?;
    if authority.expires() <= now {
        return Err(RequestError::SignerExpired);
    }
    let (key_usages, extended_usages) = usages_of(usages)?;
    let life = life.min(MAX_LIFE);
    let template = Template {
        subject: subject(&request.certification_request_info.subject),
        names: alternative_names(&request)?,
        usages: key_usages,
        extended_usages,
        not_before: now - BACKDATE,
        not_after: if life < SHORT { now + life } else { now + life - BACKDATE },
        is_authority: false,
        scope: Some(scope),
    };
    let signed = authority.sign(&template, request.certification_request_info.subject_pki.raw);
    signed.map_err(|error| RequestError::Sign(error.to_string()))
}

fn usages_of(names: &[String]) -> Result<(BTreeSet<u8>, Vec<&'static [u32]>), RequestError> {
    let has = |usage: &str| names.iter().any(|name| name == usage);
    let known = |name: &str| {
        KEY_USAGES.iter().any(|(usage, _)| *usage == name)
            || EXTENDED_USAGES.iter().any(|(usage, _)| *usage == name)
    };
    let unknown: Vec<String> = names.iter().filter(|name| !known(name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(RequestError::Usages(unknown));
    }
    let bits = KEY_USAGES.iter().filter(|(usage, _)| has(usage)).map(|(_, bit)| *bit).collect();
    let mut extended: Vec<&[u32]> =
        EXTENDED_USAGES.iter().filter(|(usage, _)| has(usage)).map(|(_, oid)| *oid).collect();
    extended.dedup();
    Ok((bits, extended))
}

fn subject(name: &X509Name<'_>) -> Vec<(&'static [u32], String)> {
    let mut subject = Vec::new();
    for (attribute, many) in ATTRIBUTES {
        let is_it = |arcs: &[u32]| arcs == *attribute;
        let found = name.iter_attributes().filter(|value| {
            let arcs = value.attr_type().iter().map(Iterator::collect::<Vec<u64>>).unwrap_or_default();
            let arcs: Vec<u32> = arcs.into_iter().filter_map(|arc| u32::try_from(arc).ok()).collect();
            is_it(&arcs)
        });
        let mut values: Vec<String> =
            found.filter_map(|value| value.as_str().ok()).map(str::to_owned).collect();
        if !many {
            values.drain(..values.len().saturating_sub(1));
        }
        subject.extend(values.into_iter().map(|value| (*attribute, value)));
    }
    subject
}

/// All alternative names of a request; other types than these four are omitted, as in
/// kube-controller-manager.
fn alternative_names(request: &X509CertificationRequest<'_>) -> Result<Vec<AlternativeName>, RequestError> {
    let mut names = Vec::new();
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(found) = extension else { continue };
        for name in &found.general_names {
            names.extend(match name {
                GeneralName::DNSName(text) => Some(AlternativeName::Dns((*text).to_owned())),
                GeneralName::RFC822Name(text) => Some(AlternativeName::Email((*text).to_owned())),
                GeneralName::URI(text) => Some(AlternativeName::Uri((*text).to_owned())),
                GeneralName::IPAddress(bytes) => {
                    Some(AlternativeName::Ip(leaf::ip(bytes).ok_or(RequestError::Malformed)?))
                }
                _ => None,
            });
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use coracle_apiserver::SCOPE_EXTENSION;
    use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, SanType};

    use super::super::authority;
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn authority() -> Authority {
        Authority::create("coracle".into(), KeyPair::generate().unwrap(), NOW, Path::new("ca")).unwrap()
    }

    fn request(key: &KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "system:node:a");
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.subject_alt_names = vec![
            SanType::DnsName("a.example".try_into().unwrap()),
            SanType::IpAddress([192, 0, 2, 1].into()),
            SanType::URI("spiffe://a".try_into().unwrap()),
            SanType::Rfc822Name("a@b.example".try_into().unwrap()),
        ];
        params.serialize_request(key).unwrap().der().to_vec()
    }

    fn scope() -> CredentialScope {
        CredentialScope::of_cluster("t1", "u1")
    }

    fn sign_for(usages: &[&str], life: Duration) -> Result<Vec<u8>, RequestError> {
        let usages: Vec<String> = usages.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let pem = sign(&authority(), &request(&key), scope(), &usages, life, NOW)?;
        Ok(authority::parse_pem(&pem).unwrap().remove(0))
    }

    #[test]
    fn signed_certificate_has_the_requested_contents() {
        let der = sign_for(&["client auth", "digital signature"], Duration::from_hours(1)).unwrap();
        let read = authority::parse_der(&der).unwrap();
        assert_eq!(read.subject().to_string(), "O=system:nodes, CN=system:node:a");
        assert_eq!(read.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 4);
        assert!(read.extended_key_usage().unwrap().unwrap().value.client_auth);
        assert!(!read.extended_key_usage().unwrap().unwrap().value.server_auth);
        assert!(!read.is_ca());
    }

    #[test]
    fn scope_is_stamped_and_never_copied_from_the_request() {
        let key = KeyPair::generate().unwrap();
        let arcs: Vec<u64> = SCOPE_EXTENSION.iter().copied().map(u64::from).collect();
        let wanted = CredentialScope::AllClusters.to_der();
        let mut params = CertificateParams::default();
        params.custom_extensions = vec![CustomExtension::from_oid_content(&arcs, wanted.clone())];
        let request = params.serialize_request(&key).unwrap().der().to_vec();
        assert!(
            request.windows(wanted.len()).any(|part| part == wanted),
            "the request carries the extension"
        );
        let usages = ["client auth".to_owned()];
        for own in [scope(), CredentialScope::DefaultCluster] {
            let pem = sign(&authority(), &request, own.clone(), &usages, SHORT, NOW).unwrap();
            let der = authority::parse_pem(&pem).unwrap().remove(0);
            assert_eq!(CredentialScope::of_certificate_der(&der), Ok(own));
        }
    }

    #[test]
    fn short_lifetime_is_not_reduced_by_the_backdating() {
        let ends = |life: Duration| {
            let der = sign_for(&["client auth"], life).unwrap();
            let ends = authority::parse_der(&der).unwrap().validity().not_after.timestamp();
            Duration::from_secs(u64::try_from(ends).unwrap()) - Duration::from_millis(NOW.as_millis())
        };
        assert_eq!(ends(Duration::from_mins(10)), Duration::from_mins(10));
        assert_eq!(ends(SHORT), SHORT - BACKDATE);
        assert_eq!(ends(MAX_LIFE * 3), MAX_LIFE - BACKDATE);
    }

    #[test]
    fn request_with_invalid_signature_is_rejected() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut forged = request(&key);
        let end = forged.len();
        forged[end - 4..].copy_from_slice(&request(&other)[..4]);
        for bad in [&forged[..], b"", b"0", &request(&key)[1..]] {
            assert!(sign(&authority(), bad, scope(), &["any".to_owned()], SHORT, NOW).is_err());
        }
    }

    #[test]
    fn unknown_usage_is_rejected_by_name() {
        let error = sign_for(&["client auth", "fun"], SHORT).unwrap_err();
        assert_eq!(error.to_string(), "unrecognized usage values: [\"fun\"]");
    }

    #[test]
    fn every_usage_of_the_api_is_supported() {
        let names = KEY_USAGES.iter().map(|(name, _)| *name).chain(EXTENDED_USAGES.iter().map(|(n, _)| *n));
        let names: Vec<&str> = names.collect();
        let der = sign_for(&names, SHORT).unwrap();
        let read = authority::parse_der(&der).unwrap();
        assert_eq!(names.len(), 23);
        assert_eq!(read.extended_key_usage().unwrap().unwrap().value.other.len(), 5);
    }
}
