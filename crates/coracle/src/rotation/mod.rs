//! Renewal of certificates while the server runs, when they are due or on request.
//!
//! One task waits for both. It has the files updated as at a start ([`crate::pki`]), and passes the results
//! on: listeners use the new certificate from the next handshake on, controllers publish the new
//! authorities, new requests are signed with the new key.

mod socket;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_apiserver::listen::{ServerCertificate, Tls, TlsError};
use coracle_apiserver::{CredentialScope, RotatingSigner};
use coracle_base::{Clock, Task, Timestamp};
use coracle_controllers::{ClientTrust, Trust};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authentication::LoadedAuthentication;
use crate::config::Config;
use crate::error::StartError;
use crate::pki::{self, ClientSigner, Credentials, RequestError};
pub(crate) use socket::{RESPONSE_TIMEOUT, Socket, path as socket_path};

/// Maximum sleep time. Timers stop while a machine is suspended, and the clock may be set; a due
/// certificate is noticed at most a day late, which is short against its lifetime.
const LONGEST_SLEEP: Duration = Duration::from_hours(24);

/// Delay after a failure, such as a full disk.
const RETRY: Duration = Duration::from_mins(5);

/// The current credentials and the task that renews them.
pub(crate) struct Rotation {
    config: Config,
    addresses: Vec<SocketAddr>,
    clock: Clock,
    tls: Tls,
    authentication: Arc<LoadedAuthentication>,
    trust: watch::Sender<Trust>,
    signer: Arc<CurrentSigner>,
    tokens: Arc<RotatingSigner>,
    due: Timestamp,
}

/// Handles to the current credentials.
pub(crate) struct Parts {
    pub(crate) tls: Tls,
    pub(crate) trust: watch::Receiver<Trust>,
    pub(crate) signer: Arc<CurrentSigner>,
    pub(crate) tokens: Arc<RotatingSigner>,
}

impl Rotation {
    /// Starts with the credentials prepared at the start.
    pub(crate) fn new(
        config: Config,
        addresses: Vec<SocketAddr>,
        clock: Clock,
        authentication: Arc<LoadedAuthentication>,
        prepared: Credentials,
    ) -> Result<(Self, Parts), StartError> {
        let proxy_ca = authentication.proxy_ca(&prepared.front_proxy_ca);
        let certificate = server_certificate(&prepared)?;
        let tls = Tls::with_front_proxy(prepared.ca.as_bytes(), Some(proxy_ca.as_bytes()), certificate)?;
        let trust = watch::Sender::new(trust(&prepared, &authentication));
        let tokens = Arc::new(RotatingSigner::new(authentication.signer(&prepared.account_keys)?));
        let due = prepared.due;
        let current = Mutex::new(Arc::new(prepared.client_signer));
        let signer = Arc::new(CurrentSigner { clock: clock.clone(), current });
        let (subscribed, keys) = (trust.subscribe(), Arc::clone(&tokens));
        let parts = Parts { tls: tls.clone(), trust: subscribed, signer: signer.clone(), tokens: keys };
        Ok((Self { config, addresses, clock, tls, authentication, trust, signer, tokens, due }, parts))
    }

    /// Renews credentials until `stop`.
    pub(crate) async fn run(mut self, socket: Option<Socket>, stop: CancellationToken) {
        loop {
            let wake = self.due.min(self.clock.now() + LONGEST_SLEEP);
            tokio::select! {
                // Cancel-safe: it only waits.
                () = stop.cancelled() => return,
                // Cancel-safe: it only waits.
                () = self.clock.sleep_until(wake) => {
                    if self.due <= self.clock.now() {
                        // Logged where it failed; the next attempt is scheduled.
                        let _ = self.replace().await;
                    }
                }
                // Cancel-safe: a connection that is not accepted stays queued.
                client = socket::accept(socket.as_ref()) => {
                    let outcome = self.replace().await;
                    client.respond(outcome).await;
                }
            }
        }
    }

    async fn replace(&mut self) -> Result<(), StartError> {
        let replaced = self.try_replace().await;
        if let Err(error) = &replaced {
            tracing::error!(%error, "cannot rotate certificates, retrying");
            self.due = self.clock.now() + RETRY;
        }
        replaced
    }

    async fn try_replace(&mut self) -> Result<(), StartError> {
        let (config, addresses, now) = (self.config.clone(), self.addresses.clone(), self.clock.now());
        let prepared = Task::spawn_blocking("pki", move || pki::prepare(&config, &addresses, now)).await??;
        // New authorities are trusted before certificates signed by them are used.
        let next = trust(&prepared, &self.authentication);
        self.trust.send_if_modified(|known| {
            let changed = *known != next;
            *known = next;
            changed
        });
        let proxy_ca = self.authentication.proxy_ca(&prepared.front_proxy_ca);
        let certificate = server_certificate(&prepared)?;
        self.tls.replace(prepared.ca.as_bytes(), Some(proxy_ca.as_bytes()), certificate)?;
        self.tokens.replace(self.authentication.signer(&prepared.account_keys)?)?;
        self.due = prepared.due;
        self.signer.replace(prepared.client_signer);
        Ok(())
    }
}

fn server_certificate(prepared: &Credentials) -> Result<ServerCertificate, TlsError> {
    let (chain, key) = (prepared.server_certificate.as_bytes(), prepared.server_key.expose().as_bytes());
    ServerCertificate::from_pem(chain, key)
}

/// The published authorities.
fn trust(prepared: &Credentials, authentication: &LoadedAuthentication) -> Trust {
    let mut data = authentication.front_proxy_data(&prepared.front_proxy_ca);
    data.insert("client-ca-file".to_owned(), prepared.ca.clone());
    let clients = ClientTrust { data, withdrawn: prepared.withdrawn.clone() };
    Trust { root_ca: prepared.ca.clone(), clients }
}

/// Signs with the current key.
pub(crate) struct CurrentSigner {
    clock: Clock,
    current: Mutex<Arc<ClientSigner>>,
}

impl CurrentSigner {
    fn replace(&self, signer: ClientSigner) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(signer);
    }

    /// Signs a request (PKCS #10, in DER). Returns the certificate in PEM, valid for the clusters of
    /// `scope`.
    pub(crate) fn sign(
        &self,
        request: &[u8],
        scope: CredentialScope,
        usages: &[String],
        life: Duration,
    ) -> Result<String, RequestError> {
        let signer = Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner));
        signer.sign(request, scope, usages, life, self.clock.now())
    }
}
