//! The renewal task on a manual clock: the certificates that listeners present after renewals.

use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::listen::{Accept, Handshake};
use coracle_base::{ManualClock, Task};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::authentication::{self, Authentication};

const DAY: Duration = Duration::from_hours(24);
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

struct Running {
    dir: TempDir,
    clock: ManualClock,
    tls: Tls,
    trust: watch::Receiver<Trust>,
    signer: Arc<CurrentSigner>,
    stop: CancellationToken,
    task: Task<()>,
    /// The authority that a client configured at the start trusts.
    first_ca: String,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (config, clock) = (Config::new(dir.path()), ManualClock::starting_at(NOW));
        let prepared = pki::prepare(&config, &config.listen, NOW).unwrap();
        let first_ca = prepared.ca.clone();
        let loaded = Arc::new(authentication::load(&Authentication::default()).unwrap());
        let addresses = config.listen.clone();
        let (rotation, parts) = Rotation::new(config, addresses, clock.clock(), loaded, prepared).unwrap();
        let (stop, socket) = (CancellationToken::new(), Socket::open(dir.path()));
        assert!(socket.is_some());
        let task = Task::spawn("certificates", rotation.run(socket, stop.clone()));
        let Parts { tls, trust, signer, .. } = parts;
        Self { dir, clock, tls, trust, signer, stop, task, first_ca }
    }

    /// The certificate seen by a client with the first authority and the server's time.
    async fn certificate(&self) -> CertificateDer<'static> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.first_ca.as_bytes()).unwrap()).unwrap();
        let time = Arc::new(Time(self.clock.clock()));
        let config = ClientConfig::builder_with_details(Arc::new(ring::default_provider()), time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut listener = self.tls.listener(listener);
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let server = async { listener.accept().await.unwrap().handshake().await.map(drop) };
        let (client, served) = tokio::join!(connector.connect(name, stream), server);
        served.unwrap();
        client.unwrap().get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Waits until the server presents another certificate than `before`.
    async fn certificate_after(&self, before: &CertificateDer<'_>) -> CertificateDer<'static> {
        loop {
            let certificate = self.certificate().await;
            if certificate != *before {
                return certificate;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        drop(self.dir);
    }
}

#[derive(Debug)]
struct Time(Clock);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.now().as_millis())))
    }
}

#[tokio::test]
async fn listener_presents_a_new_certificate_when_the_old_one_is_due() {
    let running = Running::start();
    let first = running.certificate().await;
    running.clock.advance(DAY * 240);
    assert_eq!(running.certificate().await, first);
    running.clock.advance(DAY * 53);
    let second = running.certificate_after(&first).await;
    // A year later, and once more: no certificate expires in use.
    running.clock.advance(DAY * 293);
    let third = running.certificate_after(&second).await;
    assert_ne!(third, first);
    running.stop().await;
}

#[tokio::test]
async fn expiring_authority_is_replaced_while_running() {
    let mut running = Running::start();
    let signed = |running: &Running| {
        let key = rcgen::KeyPair::generate().unwrap();
        let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
        let life = Duration::from_hours(1);
        let pem = {
            let usages = ["client auth".to_owned()];
            running.signer.sign(request.der(), CredentialScope::DefaultCluster, &usages, life).unwrap()
        };
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        pem.parse_x509().unwrap().issuer().to_string()
    };
    assert_eq!(signed(&running), "CN=coracle");
    let both = |trust: &Trust| trust.root_ca.matches("BEGIN").count() == 2;
    running.clock.advance(DAY * 2921);
    drop(running.trust.wait_for(|trust| both(trust)).await.unwrap());
    assert_eq!(signed(&running), "CN=coracle", "the new authority does not sign yet");
    let started = running.trust.borrow_and_update().root_ca.clone();
    running.clock.advance(Duration::from_hours(1));
    running.trust.wait_for(|trust| trust.root_ca != started).await.unwrap();
    while signed(&running) == "CN=coracle" {
        tokio::task::yield_now().await;
    }
    // A client configured long ago still trusts the server.
    drop(running.certificate().await);
    running.clock.advance(DAY * 365);
    let last = running.trust.wait_for(|trust| !both(trust)).await.unwrap().clone();
    assert_eq!(last.clients.withdrawn.len(), 2);
    drop(last);
    running.stop().await;
}
