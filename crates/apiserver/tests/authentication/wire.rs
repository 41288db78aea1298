//! The server on a socket with TLS, and clients that are free to misbehave.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use coracle_apiserver::listen::{ServerCertificate, Tls};
use coracle_apiserver::{Limits, SCOPE_EXTENSION, Server};
use coracle_base::Task;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

use crate::site::Site;

const NAME: &str = "server.example";

/// A certificate and its key in PEM.
pub(crate) struct Pair {
    certificate: String,
    key: String,
}

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a client.
    pub(crate) fn client(&self, user: &str, group: &str) -> Pair {
        self.issue(user, group, |_| ())
    }

    /// One that ended long ago.
    pub(crate) fn expired(&self, user: &str, group: &str) -> Pair {
        self.issue(user, group, |params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        })
    }

    /// One that carries this as the extension with its clusters.
    pub(crate) fn scoped(&self, user: &str, group: &str, extensions: &[Vec<u8>]) -> Pair {
        let arcs: Vec<u64> = SCOPE_EXTENSION.iter().copied().map(u64::from).collect();
        let extensions = extensions.iter();
        let extensions = extensions.map(|value| CustomExtension::from_oid_content(&arcs, value.clone()));
        self.issue(user, group, |params| params.custom_extensions = extensions.collect())
    }

    /// One for a server.
    pub(crate) fn server(&self, user: &str, group: &str) -> Pair {
        self.issue(user, group, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        })
    }

    fn issue(&self, user: &str, group: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new([NAME.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

pub(crate) struct Running {
    pub(crate) clients: Authority,
    pub(crate) proxies: Authority,
    pub(crate) address: SocketAddr,
    shutdown: CancellationToken,
    task: Task<()>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        let (clients, proxies) = (Authority::new("clients"), Authority::new("proxies"));
        let Pair { certificate, key } = clients.server(NAME, "servers");
        let shown = ServerCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let (client_ca, proxy_ca) = (clients.0.pem(), proxies.0.pem());
        let tls = Tls::with_front_proxy(client_ca.as_bytes(), Some(proxy_ca.as_bytes()), shown).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let site = Site::of_today().await;
        let shutdown = CancellationToken::new();
        let server = Server::new(site.server, Limits::default());
        let task = Task::spawn("server", server.serve(tls.listener(listener), shutdown.clone()));
        Self { clients, proxies, address, shutdown, task }
    }

    /// Sends bytes on a connection of its own, and returns everything that comes back.
    pub(crate) async fn exchange(&self, shows: Option<&Pair>, sent: &[u8]) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.clients.0.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shows {
            None => config.with_no_client_auth(),
            Some(Pair { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                let key = ring::sign::any_supported_type(&key).unwrap();
                let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                config.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(NAME).unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(sent).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The code of the answer to a request with these lines in its head.
    pub(crate) async fn get(&self, shows: Option<&Pair>, path: &str, lines: &str) -> u16 {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n{lines}\r\n");
        code(&self.exchange(shows, request.as_bytes()).await.unwrap())
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

/// The code of the first answer.
pub(crate) fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("an answer of HTTP")
}
