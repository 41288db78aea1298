//! A subject alternative name of the serving certificate.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::error::ConfigError;

/// The maximum lengths of a DNS name and of one of its labels (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// A subject alternative name: an IP address or a DNS name.
///
/// ```
/// use coracle::config::SubjectName;
///
/// assert_eq!("192.0.2.1".parse(), Ok(SubjectName::Ip([192, 0, 2, 1].into())));
/// assert_eq!("API.example.org".parse(), Ok(SubjectName::Dns("api.example.org".to_owned())));
/// assert!("not a name".parse::<SubjectName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectName {
    /// A name in lower case; its first label may be `*`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl FromStr for SubjectName {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if let Ok(ip) = text.parse() {
            return Ok(SubjectName::Ip(ip));
        }
        let name = text.to_ascii_lowercase();
        let malformed = || ConfigError::MalformedName { text: text.to_owned() };
        is_dns_name(&name).then_some(SubjectName::Dns(name)).ok_or_else(malformed)
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubjectName::Dns(name) => name.fmt(f),
            SubjectName::Ip(ip) => ip.fmt(f),
        }
    }
}

fn is_dns_name(name: &str) -> bool {
    let labels = name.strip_prefix("*.").unwrap_or(name);
    // A name with a numeric last label is a malformed IP address.
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= MAX_NAME_BYTES
        && labels.split('.').all(is_label)
        && !labels.rsplit('.').next().is_some_and(is_number)
}

fn is_label(label: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(fits)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_parsed() {
        for text in ["localhost", "a.b-c.example", "*.example.org", "node1", "1.example", "::1", "10.0.0.1"] {
            assert_eq!(text.parse::<SubjectName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_name_is_rejected() {
        let long = "a".repeat(MAX_LABEL_BYTES + 1);
        let wrong =
            ["", ".", "a..b", "-a", "a-", "a b", "a_b", "*", "a.*.b", "10.0.0.256", "10.0", "ä", &long];
        for text in wrong {
            let error = text.parse::<SubjectName>().unwrap_err();
            let expected = format!("{text:?} is neither a DNS name nor an IP address");
            assert_eq!(error.to_string(), expected);
        }
    }
}
