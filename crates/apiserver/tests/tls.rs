//! Encrypted connections over real sockets: who is let in, as whom, and who is cut.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::listen::{ConnectionRequest, ServerCertificate, Tls, TlsError};
use coracle_apiserver::{Limits, PeerIdentity, ResponseBody, Server};
use coracle_base::Task;
use http::Response;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";

/// A certificate and its key in PEM.
struct Pair {
    certificate: String,
    key: String,
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn server(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn client(&self, user: &str, group: &str) -> Pair {
        self.client_with(user, group, |_| ())
    }

    fn client_with(&self, user: &str, group: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::default();
        change(&mut params);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Pair {
    fn for_server(&self) -> ServerCertificate {
        ServerCertificate::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

/// A server that returns the name of the authenticated client, and the CA that it trusts.
struct Running {
    authority: Authority,
    tls: Tls,
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    task: Task<()>,
}

impl Running {
    async fn start() -> Self {
        let authority = Authority::new();
        let tls =
            Tls::new(authority.0.pem().as_bytes(), authority.server("one.example").for_server()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = Server::new(service_fn(who_asks), Limits::default());
        let task = Task::spawn("server", server.serve(tls.listener(listener), shutdown.clone()));
        Self { authority, tls, address, shutdown, task }
    }

    async fn connect(&self, client: Client<'_>) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.0.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client.shows {
            None => config.with_no_client_auth(),
            Some(Pair { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                // Not checked to belong together: that is for the server to find out.
                let key = ring::sign::any_supported_type(&key).unwrap();
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(
                    chain, key,
                ))))
            }
        };
        config.alpn_protocols = client.speaks.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(client.expects.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// The body of the answer to a request over HTTP/1.
    async fn ask(&self, client: Client<'_>) -> io::Result<String> {
        let mut stream = self.connect(client).await?;
        stream.write_all(REQUEST).await?;
        let answer = rest(&mut stream).await?;
        Ok(answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned())
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

#[derive(Clone, Copy)]
struct Client<'a> {
    expects: &'a str,
    shows: Option<&'a Pair>,
    speaks: &'a [&'a str],
}

impl Default for Client<'_> {
    fn default() -> Self {
        Self { expects: "one.example", shows: None, speaks: &[] }
    }
}

async fn who_asks(request: ConnectionRequest) -> Result<Response<ResponseBody>, Infallible> {
    let PeerIdentity(identity) = request.extensions().get().expect("every request carries one");
    let text = match identity {
        Some(identity) => format!("{} of {}", identity.name, identity.groups.join(", ")),
        None => "nobody".to_owned(),
    };
    Ok(Response::new(ResponseBody::new(http_body_util::Full::from(text))))
}

async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::test]
async fn client_is_authenticated_by_its_certificate() {
    let running = Running::start().await;
    let me = running.authority.client("me", "crew");
    let answer = running.ask(Client { shows: Some(&me), ..Client::default() }).await.unwrap();
    assert_eq!(answer, "me of crew, system:authenticated");
    assert_eq!(running.ask(Client::default()).await.unwrap(), "nobody");
    running.stop().await;
}

#[tokio::test]
async fn client_with_an_unverifiable_certificate_has_no_identity() {
    let running = Running::start().await;
    let stranger = Authority::new().client("me", "system:masters");
    let of_a_server = running.authority.server("me");
    let expired = running.authority.client_with("me", "system:masters", |params| {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });
    for shown in [&stranger, &of_a_server, &expired] {
        let answer = running.ask(Client { shows: Some(shown), ..Client::default() }).await;
        assert_eq!(answer.unwrap(), "nobody");
    }
    running.stop().await;
}

#[tokio::test]
async fn client_without_the_private_key_is_disconnected() {
    let running = Running::start().await;
    let me = running.authority.client("me", "system:masters");
    let stolen = Pair { certificate: me.certificate, key: KeyPair::generate().unwrap().serialize_pem() };
    let answer = running.ask(Client { shows: Some(&stolen), ..Client::default() }).await;
    assert!(answer.is_err(), "{answer:?}");
    running.stop().await;
}

#[tokio::test]
async fn the_better_protocol_is_agreed_on() {
    let running = Running::start().await;
    for (speaks, agreed) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = running.connect(Client { speaks, ..Client::default() }).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{speaks:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_certificate_can_be_replaced() {
    let running = Running::start().await;
    let two = Client { expects: "two.example", ..Client::default() };
    assert!(running.ask(two).await.is_err());
    let mut open = running.connect(Client::default()).await.unwrap();
    let authority = running.authority.0.pem();
    let second = running.authority.server("two.example").for_server();
    running.tls.replace(authority.as_bytes(), None, second).unwrap();
    assert_eq!(running.ask(two).await.unwrap(), "nobody");
    assert!(running.ask(Client::default()).await.is_err());
    open.write_all(REQUEST).await.unwrap();
    assert!(rest(&mut open).await.unwrap().ends_with("nobody"), "what is open goes on");
    running.stop().await;
}

#[tokio::test]
async fn an_authority_is_trusted_from_and_until_a_handshake() {
    let running = Running::start().await;
    let (first, second) = (running.authority.0.pem(), Authority::new());
    let (old, new) = (running.authority.client("old", "g"), second.client("new", "g"));
    let asked = async |pair: &Pair| running.ask(Client { shows: Some(pair), ..Client::default() }).await;
    assert_eq!(asked(&new).await.unwrap(), "nobody");
    let server = || running.authority.server("one.example").for_server();
    let both = [first.as_str(), &second.0.pem()].concat();
    running.tls.replace(both.as_bytes(), None, server()).unwrap();
    assert!(asked(&old).await.unwrap().contains("old") && asked(&new).await.unwrap().contains("new"));
    running.tls.replace(second.0.pem().as_bytes(), None, server()).unwrap();
    assert_eq!(asked(&old).await.unwrap(), "nobody");
    assert!(asked(&new).await.unwrap().contains("new"));
    assert!(running.tls.replace(b"nothing", None, server()).is_err());
    assert!(asked(&new).await.unwrap().contains("new"), "a replacement of no use changes nothing");
    running.stop().await;
}

#[tokio::test]
async fn half_open_handshakes_do_not_delay_others() {
    let running = Running::start().await;
    let mut dawdlers = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        // The header of a TLS record whose content is never sent.
        stream.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
        dawdlers.push(stream);
    }
    assert_eq!(running.ask(Client::default()).await.unwrap(), "nobody");
    // They do not delay the shutdown either: they have sent no request yet.
    tokio::time::timeout(Limits::default().handshake_timeout / 2, running.stop()).await.expect("at once");
}

#[tokio::test]
async fn slow_handshake_is_aborted() {
    let running = Running::start().await;
    let [mut silent, mut slow] = [
        TcpStream::connect(running.address).await.unwrap(),
        TcpStream::connect(running.address).await.unwrap(),
    ];
    slow.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
    // Both are accepted and waited for, since this one, which came later, was served.
    assert_eq!(running.ask(Client::default()).await.unwrap(), "nobody");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    for stream in [&mut silent, &mut slow] {
        // Closed with bytes unread, the end may be a reset.
        assert_eq!(rest(stream).await.unwrap_or_default(), "");
    }
    let limit = Limits::default().handshake_timeout;
    assert!(began.elapsed() <= limit + Duration::from_secs(1), "{:?}", began.elapsed());
    running.stop().await;
}

#[tokio::test]
async fn plain_http_on_a_tls_port_gets_an_explanation() {
    let running = Running::start().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let answer = rest(&mut stream).await.unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    running.stop().await;
}

#[test]
fn what_cannot_be_used_is_refused_and_not_shown() {
    let authority = Authority::new();
    let (one, two) = (authority.server("one"), authority.server("two"));
    let read =
        |certificate: &str, key: &str| ServerCertificate::from_pem(certificate.as_bytes(), key.as_bytes());
    let mismatch = read(&one.certificate, &two.key).unwrap_err();
    assert!(matches!(mismatch, TlsError::Pair(_)), "{mismatch:?}");
    assert!(matches!(read("", &one.key), Err(TlsError::Certificate(_))));
    let cut = &one.key[..one.key.len() / 2];
    let error = read(&one.certificate, cut).unwrap_err();
    assert!(matches!(error, TlsError::Key(_)));
    let secret = one.key.lines().nth(1).unwrap();
    let shown = format!("{error:?} {error} {mismatch:?} {:?}", one.for_server());
    assert!(!shown.contains(&secret[..16]), "{shown}");
    assert!(Tls::new(b"", one.for_server()).is_err());
}
