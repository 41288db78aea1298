//! Who is asking: everyone who can tell is asked in upstream's order, and the first who knows decides.
//!
//! 1. Front proxies, which say it in headers, if a certificate shows that they are one.
//! 2. The client certificate.
//! 3. The token: of the token file, of a service account, of a node that joins.
//! 4. Nobody: whoever shows nothing, where that is allowed.
//!
//! A credential that is not good is refused even where none is needed, unless there is another that is.
//! After this, no credential is left in the request. What somebody may do is decided elsewhere.

mod anonymous;
mod authenticator;
mod bearer;
mod bootstrap_token;
mod certificate;
mod csv;
mod front_proxy;
mod hasher;
mod service_account;
mod static_tokens;

use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_registry::{Cluster, Identity};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};

pub use anonymous::Anonymous;
pub(crate) use authenticator::{Authenticated, AuthenticationError};
pub use front_proxy::FrontProxy;
pub use static_tokens::{StaticTokens, TokenFileError};

use crate::identity::{PeerCertificate, PeerIdentity};
use crate::status::Refusal;
use crate::token::TokenSigner;
use anonymous::AnonymousAuthenticator;
use authenticator::{Attempt, Authenticator, Outcome, TokenAuthenticator};
use bearer::BearerAuthenticator;
use bootstrap_token::BootstrapTokenAuthenticator;
use certificate::CertificateAuthenticator;
use front_proxy::FrontProxyAuthenticator;
use service_account::ServiceAccountAuthenticator;
use static_tokens::StaticTokenAuthenticator;

/// How it is found out who is asking.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    /// Where those who show nothing may ask.
    pub anonymous: Anonymous,
    /// The tokens of a file.
    pub static_tokens: Option<Arc<StaticTokens>>,
    /// Whether nodes may join with the tokens of secrets.
    pub bootstrap_tokens: bool,
    /// Who says in headers who is asking, if they may.
    pub front_proxy: Option<FrontProxy>,
    /// Further issuers whose tokens are good, beside the one that the server is now.
    pub further_issuers: Vec<String>,
    /// By which names tokens may mean this server; none for the names of the issuers.
    pub api_audiences: Vec<String>,
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self {
            anonymous: Anonymous::default(),
            static_tokens: None,
            bootstrap_tokens: true,
            front_proxy: None,
            further_issuers: Vec::new(),
            api_audiences: Vec::new(),
        }
    }
}

/// Everyone who can tell who is asking.
pub(crate) struct Authentication {
    /// The first who knows decides.
    known: Vec<Box<dyn Authenticator>>,
    /// Asked if nobody had an objection.
    unknown: AnonymousAuthenticator,
    api_audiences: Vec<String>,
    /// The headers of the proxies that there are, and those that there might be.
    proxies: Vec<FrontProxy>,
}

impl Authentication {
    /// Everyone that a server with this key and this config has.
    pub(crate) fn new(config: &AuthenticationConfig, signer: Option<&Arc<dyn TokenSigner>>) -> Self {
        let mut issuers: Vec<String> = signer.map(|signer| signer.issuer().to_owned()).into_iter().collect();
        issuers.extend(config.further_issuers.iter().cloned());
        let own = &config.api_audiences;
        let api_audiences = if own.is_empty() { issuers.clone() } else { own.clone() };

        let mut known: Vec<Box<dyn Authenticator>> = Vec::new();
        let mut proxies = vec![FrontProxy::default()];
        if let Some(settings) = config.front_proxy.clone() {
            proxies.push(settings.clone());
            known.push(Box::new(FrontProxyAuthenticator { settings, api_audiences: api_audiences.clone() }));
        }
        known.push(Box::new(CertificateAuthenticator));

        let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
        if let Some(file) = config.static_tokens.clone() {
            let api_audiences = api_audiences.clone();
            tokens.push(Box::new(StaticTokenAuthenticator { tokens: file, api_audiences }));
        }
        if let Some(signer) = signer.cloned() {
            let accounts = ServiceAccountAuthenticator::new(signer, issuers, api_audiences.clone());
            tokens.push(Box::new(accounts));
        }
        if config.bootstrap_tokens {
            tokens.push(Box::new(BootstrapTokenAuthenticator::new(api_audiences.clone())));
        }
        known.push(Box::new(BearerAuthenticator(tokens)));
        let unknown = AnonymousAuthenticator::new(config.anonymous);
        Self { known, unknown, api_audiences, proxies }
    }

    /// By which names tokens mean this server.
    pub(crate) fn api_audiences(&self) -> &[String] {
        &self.api_audiences
    }

    /// Who sent a request to a cluster. Takes all credentials out of it.
    pub(crate) async fn authenticate(
        &self,
        parts: &mut Parts,
        cluster: &Cluster,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Refusal> {
        let attempt = Attempt {
            headers: &parts.headers,
            peer: parts.extensions.get::<PeerIdentity>(),
            certificate: parts.extensions.get::<PeerCertificate>(),
            path: parts.uri.path(),
            cluster,
            audiences: &self.api_audiences,
            now,
        };
        match self.judge(&attempt).await {
            Ok(Some(Authenticated { identity, .. })) => {
                self.strip(&mut parts.headers);
                Ok(identity)
            }
            Ok(None) => Err(self.refusal(&parts.headers, None)),
            Err(error) => Err(self.refusal(&parts.headers, Some(&error))),
        }
    }

    /// Whose token something is, for somebody who asks on behalf of others.
    ///
    /// # Errors
    /// Why it is nobody's.
    pub(crate) async fn review(
        &self,
        token: &str,
        audiences: &[String],
        cluster: &Cluster,
        now: Timestamp,
    ) -> Outcome {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        headers.insert(header::AUTHORIZATION, value.map_err(|_| AuthenticationError::InvalidToken)?);
        let audiences = if audiences.is_empty() { &*self.api_audiences } else { audiences };
        let attempt =
            Attempt { headers: &headers, peer: None, certificate: None, path: "", cluster, audiences, now };
        self.judge(&attempt).await
    }

    async fn judge(&self, attempt: &Attempt<'_>) -> Outcome {
        let mut errors = Vec::new();
        for authenticator in &self.known {
            match authenticator.authenticate(attempt).await {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => errors.push(error),
            }
        }
        match AuthenticationError::of(errors) {
            None => self.unknown.authenticate(attempt).await,
            Some(error) => Err(error),
        }
    }

    fn strip(&self, headers: &mut HeaderMap) {
        bearer::strip(headers);
        for proxy in &self.proxies {
            proxy.strip(headers);
        }
    }

    fn refusal(&self, headers: &HeaderMap, error: Option<&AuthenticationError>) -> Refusal {
        if let Some(failed) = error.and_then(AuthenticationError::lookup) {
            return Refusal::internal(failed);
        }
        if let Some(error) = error {
            // Anyone can fail to be somebody, as often as they like.
            tracing::debug!(%error, "unable to authenticate the request");
        }
        let refusal = Refusal::unauthorized();
        if bearer::has_extra_space(headers) { refusal.warned(bearer::EXTRA_SPACE) } else { refusal }
    }
}
