//! Options of the etcd engine, as given by the user, and their validation.

use std::fmt;
use std::time::Duration;

use coracle_base::Clock;
use http::Uri;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::CompactionPolicy;
use crate::error::{Error, Result};

/// Interval of keep-alive pings on a silent connection with pending requests. Etcd disconnects clients that ping more
/// often than every 5 s, or without pending requests.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Time without a ping response after which the connection is considered dead.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flow-control window of one watch. Small, so that watches that are not read at the moment cannot exhaust the window
/// of their shared connection.
const WATCH_STREAM_WINDOW: u32 = 256 << 10;

/// Flow-control window of all watches of one connection: enough for thousands of watches that are not read.
const WATCH_CONNECTION_WINDOW: u32 = 1 << 30;

/// First line of a certificate in PEM.
const PEM_CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Options for connecting to an etcd cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// URLs of the members, such as `http://10.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// Key prefix in etcd of all keys; ends with a slash.
    pub root: String,
    /// Required for `https` endpoints.
    pub tls: Option<Tls>,
    /// User name and password, if the cluster requires authentication.
    pub auth: Option<(String, Password)>,
    /// Timeout for connecting to a member.
    pub connect_timeout: Duration,
    /// Time after which a request fails.
    pub request_timeout: Duration,
    /// History to discard. In etcd only by `max_age`, where zero disables compaction.
    pub compaction: CompactionPolicy,
    /// The clock.
    pub clock: Clock,
}

/// Certificates for TLS, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// CA bundle that verifies the members' certificates.
    pub ca_pem: Vec<u8>,
    /// Client certificate and key, if the cluster requires one.
    pub identity: Option<ClientIdentity>,
    /// Name in the members' certificates, if it differs from the host of their URL.
    pub domain: Option<String>,
}

/// A client certificate and its private key, in PEM.
#[derive(Clone)]
pub struct ClientIdentity {
    /// The certificate, followed by intermediate certificates.
    pub cert_pem: Vec<u8>,
    /// The private key.
    pub key_pem: Vec<u8>,
}

/// A password, which is never printed.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("client_certificate", &self.identity.is_some())
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

impl Options {
    /// Options for the cluster with these members, otherwise with defaults.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            root: "coracle/".to_owned(),
            tls: None,
            auth: None,
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            compaction: CompactionPolicy::default(),
            clock: Clock::system(),
        }
    }

    /// Options for the cluster with the members in a list such as `http://a:2379,http://b:2379`.
    ///
    /// # Errors
    /// [`Error::Config`] with the first item that is not a member's URL.
    pub fn parse(list: &str) -> Result<Self> {
        let endpoints: Vec<&str> = list.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        let options = Self::new(endpoints);
        options.check_endpoints()?;
        Ok(options)
    }

    fn check_endpoints(&self) -> Result<()> {
        if self.endpoints.is_empty() {
            let example = "expected at least one, such as http://127.0.0.1:2379";
            return Err(Error::Config(format!("no etcd endpoint is given; {example}")));
        }
        self.endpoints.iter().try_for_each(|url| member_uri(url).map(drop))
    }

    fn check_root(&self) -> Result<()> {
        if self.root.len() > 1 && self.root.ends_with('/') {
            return Ok(());
        }
        // Without the slash, the root `a` would include the keys of the root `ab`.
        let expected = "expected a prefix that ends with a slash, such as coracle/";
        Err(Error::Config(format!("etcd root {:?} is not usable; {expected}", self.root)))
    }

    /// Validates everything that needs no connection.
    pub(super) fn check(&self) -> Result<()> {
        self.check_endpoints()?;
        self.check_root()
    }

    /// History kept by the mirror: as much as in an in-process store, independent of etcd's compaction.
    pub(super) fn mirror_history(&self) -> CompactionPolicy {
        let max_age = match self.compaction.max_age {
            Duration::ZERO => CompactionPolicy::default().max_age,
            max_age => max_age,
        };
        CompactionPolicy { max_age, ..self.compaction.clone() }
    }

    /// Endpoint for requests to one member.
    pub(super) fn request_endpoint(&self, url: &str) -> Result<Endpoint> {
        let endpoint = Endpoint::from(member_uri(url)?)
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(false);
        if endpoint.uri().scheme_str() != Some("https") {
            return Ok(endpoint);
        }
        let Some(tls) = &self.tls else {
            let shown = shown(url);
            let expected = "an https endpoint needs the certificate of its authority (CA) to be verified";
            return Err(Error::Config(format!("etcd endpoint {shown} cannot be trusted: {expected}")));
        };
        endpoint.tls_config(tls.config()?).map_err(|error| {
            let reason = crate::error::chain(&error);
            Error::Config(format!("the TLS settings for etcd do not work: {reason}"))
        })
    }

    /// Endpoint for watches of one member.
    pub(super) fn watch_endpoint(&self, url: &str) -> Result<Endpoint> {
        Ok(self
            .request_endpoint(url)?
            .initial_stream_window_size(WATCH_STREAM_WINDOW)
            .initial_connection_window_size(WATCH_CONNECTION_WINDOW))
    }
}

impl Tls {
    fn config(&self) -> Result<ClientTlsConfig> {
        // Otherwise a file without certificates would be an empty set of CAs, and every connection would fail.
        if !self.ca_pem.windows(PEM_CERTIFICATE.len()).any(|bytes| bytes == PEM_CERTIFICATE) {
            let expected = "expected PEM with a line \"-----BEGIN CERTIFICATE-----\"";
            return Err(Error::Config(format!("the authority (CA) for etcd has no certificate; {expected}")));
        }
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca_pem));
        if let Some(identity) = &self.identity {
            config = config.identity(Identity::from_pem(&identity.cert_pem, &identity.key_pem));
        }
        Ok(match &self.domain {
            Some(domain) => config.domain_name(domain),
            None => config,
        })
    }
}

fn member_uri(url: &str) -> Result<Uri> {
    let refused = |what: &str| {
        let expected = "expected http://host:port or https://host:port";
        Err(Error::Config(format!("etcd endpoint {:?} {what}; {expected}", shown(url))))
    };
    let Ok(uri) = url.parse::<Uri>() else {
        return refused("is not a URL");
    };
    let Some(authority) = uri.authority() else {
        return refused("has no host");
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return refused("has no scheme http or https");
    }
    if authority.as_str().contains('@') {
        return refused("contains a user, which is an option of its own");
    }
    if authority.host().is_empty() {
        return refused("has no host");
    }
    if authority.port_u16().is_none_or(|port| port == 0) {
        return refused("has no valid port");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return refused("has a path");
    }
    Ok(uri)
}

/// A URL for messages. The part before an `@` is hidden, because it may contain a password.
fn shown(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_members_is_parsed() {
        let options = Options::parse("http://a:2379, https://b.example:2380/,http://[::1]:1").unwrap();
        assert_eq!(options.endpoints, ["http://a:2379", "https://b.example:2380/", "http://[::1]:1"]);
        assert_eq!(options.root, "coracle/");
    }

    #[test]
    fn a_bad_part_is_named_with_what_is_expected() {
        let cases = [
            ("", "no etcd endpoint"),
            (",,", "no etcd endpoint"),
            ("http://a:2379,b:2379", "\"b:2379\" has no scheme"),
            ("a", "\"a\" has no scheme"),
            ("/run/etcd.sock", "has no host"),
            ("ftp://a:2379", "\"ftp://a:2379\" has no scheme"),
            ("http://a", "\"http://a\" has no valid port"),
            ("http://a:0", "has no valid port"),
            ("http://:2379", "has no host"),
            ("http://a:99999", "has no valid port"),
            ("http://a b:1", "is not a URL"),
            ("http://a:2379/v3", "has a path"),
            ("http://a:2379/?x=1", "has a path"),
        ];
        for (list, expected) in cases {
            let error = Options::parse(list).unwrap_err();
            assert!(matches!(error, Error::Config(_)), "{list}: {error:?}");
            assert!(error.to_string().contains(expected), "{list}: {error}");
            assert!(error.to_string().contains("expected"), "{list}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let error = Options::parse("http://root:hunter2@a:2379").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");

        let mut options = Options::new(["http://a:2379"]);
        options.auth = Some(("root".to_owned(), Password::new("hunter2")));
        let identity = ClientIdentity { cert_pem: b"cert".to_vec(), key_pem: b"hunter2".to_vec() };
        options.tls = Some(Tls { ca_pem: b"ca".to_vec(), identity: Some(identity), domain: None });
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }

    #[test]
    fn https_needs_an_authority() {
        let options = Options::parse("https://a:2379").unwrap();
        let error = options.request_endpoint("https://a:2379").unwrap_err();
        assert!(error.to_string().contains("CA"), "{error}");
    }

    #[test]
    fn the_root_ends_with_a_slash() {
        for (root, fits) in
            [("coracle/", true), ("a/b/", true), ("", false), ("/", false), ("coracle", false)]
        {
            let mut options = Options::new(["http://a:2379"]);
            options.root = root.to_owned();
            assert_eq!(options.check().is_ok(), fits, "{root}");
        }
    }
}
