//! The parsed PKCS #10 request, and Kubernetes' rules for kubelets (`pkg/apis/certificates/helpers.go`).

use std::collections::BTreeSet;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

/// The organization of all nodes, and the prefix of their user names.
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// A parsed request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CertificateRequest {
    /// The request in DER.
    pub(super) der: Vec<u8>,
    pub(super) common_name: String,
    organizations: Vec<String>,
    dns_names: usize,
    emails: usize,
    ips: usize,
    uris: usize,
}

impl CertificateRequest {
    /// Parses the first block of a PEM text; `None` if that is not a request.
    pub(super) fn parse(pem: &[u8]) -> Option<Self> {
        let (_, block) =
            parse_x509_pem(pem).ok().filter(|(_, block)| block.label == "CERTIFICATE REQUEST")?;
        let (rest, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let subject = &request.certification_request_info.subject;
        let text =
            |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
        let mut parsed = Self {
            // The last of several counts, as in Go.
            common_name: subject.iter_common_name().filter_map(text).last().unwrap_or_default(),
            organizations: subject.iter_organization().filter_map(text).collect(),
            ..Self::default()
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(_) => parsed.dns_names += 1,
                    GeneralName::RFC822Name(_) => parsed.emails += 1,
                    GeneralName::IPAddress(_) => parsed.ips += 1,
                    GeneralName::URI(_) => parsed.uris += 1,
                    _ => {}
                }
            }
        }
        parsed.der = block.contents;
        Some(parsed)
    }

    /// Checks a kubelet's client certificate request; returns the reason for a rejection.
    pub(super) fn check_kubelet_client(&self, usages: &[String]) -> Result<(), String> {
        self.check_organization()?;
        let not_allowed =
            [(self.dns_names, "DNS"), (self.emails, "Email"), (self.ips, "IP"), (self.uris, "URI")];
        check_absent(&not_allowed)?;
        self.check_common_name()?;
        check_usages(usages, CLIENT_AUTH)
    }

    /// Checks a kubelet's serving certificate request; returns the reason for a rejection.
    pub(super) fn check_kubelet_serving(&self, usages: &[String]) -> Result<(), String> {
        self.check_organization()?;
        if self.dns_names == 0 && self.ips == 0 {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
        check_absent(&[(self.emails, "Email"), (self.uris, "URI")])?;
        check_usages(usages, SERVER_AUTH)?;
        self.check_common_name()
    }

    fn check_organization(&self) -> Result<(), String> {
        let fits = self.organizations == [NODES];
        fits.then_some(()).ok_or_else(|| format!("subject organization is not {NODES}"))
    }

    fn check_common_name(&self) -> Result<(), String> {
        let fits = self.common_name.starts_with(NODE_PREFIX);
        fits.then_some(()).ok_or_else(|| format!("subject common name does not begin with {NODE_PREFIX}"))
    }
}

/// Checks the usages of a client certificate; returns the reason for a rejection.
pub(super) fn check_client_usages(usages: &[String]) -> Result<(), String> {
    let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    let has = usages.iter().any(|usage| usage == CLIENT_AUTH);
    has.then_some(()).ok_or_else(|| format!("missing required usage for client certificate: {CLIENT_AUTH}"))
}

fn check_absent(names: &[(usize, &str)]) -> Result<(), String> {
    match names.iter().find(|(count, _)| *count > 0) {
        Some((_, kind)) => Err(format!("{kind} subjectAltNames are not allowed")),
        None => Ok(()),
    }
}

/// RSA keys need one more usage than others; the key type is not checked.
fn check_usages(usages: &[String], purpose: &str) -> Result<(), String> {
    let found: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::from([DIGITAL_SIGNATURE, purpose]);
    if found == wanted {
        return Ok(());
    }
    wanted.insert(KEY_ENCIPHERMENT);
    let names: Vec<&str> = wanted.iter().copied().collect();
    (found == wanted).then_some(()).ok_or_else(|| format!("usages did not match [{}]", names.join(" ")))
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;

    use super::super::object::tests::{kubelet, pem};
    use super::*;

    fn parsed(subject: &[&str], names: &[SanType]) -> CertificateRequest {
        CertificateRequest::parse(pem(subject, names).as_bytes()).unwrap()
    }

    fn usages(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn dns() -> SanType {
        SanType::DnsName("a.example".try_into().unwrap())
    }

    fn ip() -> SanType {
        SanType::IpAddress([192, 0, 2, 1].into())
    }

    fn uri() -> SanType {
        SanType::URI("spiffe://a".try_into().unwrap())
    }

    fn email() -> SanType {
        SanType::Rfc822Name("a@b.example".try_into().unwrap())
    }

    const NODE: [&str; 2] = ["O=system:nodes", "CN=system:node:a"];

    #[test]
    fn kubelet_client_request_needs_node_name_and_usages() {
        let good = usages(&["digital signature", "client auth"]);
        let rsa = usages(&["client auth", "key encipherment", "digital signature"]);
        let check = |subject: &[&str], names: &[SanType], usages: &[String], expected: &str| {
            let found = parsed(subject, names).check_kubelet_client(usages);
            assert_eq!(found.err().unwrap_or_default(), expected);
        };
        check(&NODE, &[], &good, "");
        check(&NODE, &[], &rsa, "");
        check(&["CN=system:node:a"], &[], &good, "subject organization is not system:nodes");
        check(&["O=x", "CN=system:node:a"], &[], &good, "subject organization is not system:nodes");
        check(&NODE, &[dns()], &good, "DNS subjectAltNames are not allowed");
        check(&NODE, &[email()], &good, "Email subjectAltNames are not allowed");
        check(&NODE, &[ip()], &good, "IP subjectAltNames are not allowed");
        check(&NODE, &[uri()], &good, "URI subjectAltNames are not allowed");
        let name = "subject common name does not begin with system:node:";
        check(&["O=system:nodes", "CN=a"], &[], &good, name);
        let wrong = "usages did not match [client auth digital signature key encipherment]";
        for usages in [usages(&["client auth"]), usages(&["digital signature", "server auth"]), usages(&[])] {
            check(&NODE, &[], &usages, wrong);
        }
    }

    #[test]
    fn kubelet_serving_request_needs_dns_or_ip() {
        let good = usages(&["digital signature", "server auth"]);
        let check = |subject: &[&str], names: &[SanType], usages: &[String], expected: &str| {
            let found = parsed(subject, names).check_kubelet_serving(usages);
            assert_eq!(found.err().unwrap_or_default(), expected);
        };
        check(&NODE, &[dns()], &good, "");
        check(&NODE, &[ip()], &usages(&["digital signature", "server auth", "key encipherment"]), "");
        check(&NODE, &[], &good, "DNS or IP subjectAltName is required");
        check(&NODE, &[dns(), email()], &good, "Email subjectAltNames are not allowed");
        check(&NODE, &[dns(), uri()], &good, "URI subjectAltNames are not allowed");
        check(&["O=x"], &[dns()], &good, "subject organization is not system:nodes");
        let name = "subject common name does not begin with system:node:";
        check(&["O=system:nodes", "CN=a"], &[ip()], &good, name);
        let wrong = "usages did not match [digital signature key encipherment server auth]";
        check(&NODE, &[ip()], &usages(&["client auth", "digital signature"]), wrong);
    }

    #[test]
    fn client_usages_allow_nothing_else() {
        let check = |names: &[&str], expected: &str| {
            assert_eq!(check_client_usages(&usages(names)).err().unwrap_or_default(), expected);
        };
        check(&["client auth"], "");
        check(&["client auth", "digital signature", "key encipherment"], "");
        check(&["client auth", "server auth"], "invalid usage for client certificate: server auth");
        check(&["digital signature"], "missing required usage for client certificate: client auth");
    }

    #[test]
    fn non_request_pem_is_not_parsed() {
        let good = kubelet();
        assert!(CertificateRequest::parse(good.as_bytes()).is_some());
        for bad in ["", "x", &good.replace("CERTIFICATE REQUEST", "CERTIFICATE"), &good.replace("MII", "AII")]
        {
            if bad != good {
                assert_eq!(CertificateRequest::parse(bad.as_bytes()), None, "{bad}");
            }
        }
    }
}
