//! The names in the serving certificate.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::{Config, SubjectName};

/// The names by which pods and local clients reach the API.
const WELL_KNOWN: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The file with the host name.
const HOSTNAME_FILE: &str = "/etc/hostname";

/// All names of a server whose advertised address is `advertised`.
pub(super) fn of_server(config: &Config, advertised: IpAddr) -> BTreeSet<SubjectName> {
    let mut names: BTreeSet<_> = WELL_KNOWN.iter().map(|name| SubjectName::Dns((*name).to_owned())).collect();
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let listening = config.listen.iter().map(|address| address.ip()).filter(|ip| !ip.is_unspecified());
    // The service `kubernetes` has the first address of the service network.
    let services = config.service_network.ranges().iter().map(|range| range.address(0));
    let ips = loopback.into_iter().chain(services).chain([advertised]).chain(listening);
    names.extend(ips.map(SubjectName::Ip));
    names.extend(host_name());
    names.extend(config.tls_sans.iter().cloned());
    names
}

/// The host name; none if it cannot be read or is invalid in a certificate.
pub(crate) fn host_name() -> Option<SubjectName> {
    std::fs::read_to_string(HOSTNAME_FILE).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_certificate_has_all_names_of_the_server() {
        let config = Config {
            listen: vec!["0.0.0.0:1".parse().unwrap(), "192.0.2.7:2".parse().unwrap()],
            tls_sans: vec!["api.example.org".parse().unwrap(), "192.0.2.9".parse().unwrap()],
            ..Config::new("/d")
        };
        let names = of_server(&config, "192.0.2.8".parse().unwrap());
        for name in ["localhost", "kubernetes.default.svc", "127.0.0.1", "::1", "10.96.0.1"]
            .into_iter()
            .chain(["192.0.2.7", "192.0.2.8", "192.0.2.9", "api.example.org"])
        {
            assert!(names.contains(&name.parse().unwrap()), "{name}");
        }
        assert!(!names.contains(&"0.0.0.0".parse().unwrap()));
    }
}
