//! Authentication: identifies the user of a request. Authenticators run in kube-apiserver's order, and the first that
//! recognizes a credential decides.
//!
//! 1. Front proxies, which name the user in headers, if their client certificate is signed by the front proxy CA.
//! 2. The client certificate.
//! 3. The bearer token: of the token file, of a service account, or a bootstrap token of a joining node.
//! 4. Anonymous: requests without credentials, where that is allowed.
//!
//! Every credential is valid for one cluster or, the operator's, for all ([`CredentialScope`]); in another cluster it
//! is rejected like an invalid one.
//!
//! An invalid credential is rejected even where none is required, unless the request has another, valid one.
//! Authentication removes all credentials from the request. Authorization happens elsewhere.

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

use std::borrow::Cow;
use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_registry::Cluster;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, header};

pub use anonymous::Anonymous;
pub(crate) use authenticator::{Authenticated, AuthenticationError};
pub(crate) use bearer::{EXTRA_SPACE, has_extra_space};
pub use front_proxy::FrontProxy;
pub use static_tokens::{StaticTokens, TokenFileError};

use crate::credential_scope::CredentialScope;
use crate::identity::{Caller, PeerCertificate, PeerIdentity, Remote};
use crate::metrics::ServerMetrics;
use crate::status::Refusal;
use crate::token::{TokenSigner, issuer};
use anonymous::AnonymousAuthenticator;
use authenticator::{Attempt, Authenticator, Outcome, TokenAuthenticator};
use bearer::BearerAuthenticator;
use bootstrap_token::BootstrapTokenAuthenticator;
use certificate::CertificateAuthenticator;
use coracle_registry::DEFAULT_CLUSTER;
use front_proxy::FrontProxyAuthenticator;
use service_account::ServiceAccountAuthenticator;
use static_tokens::StaticTokenAuthenticator;

/// Settings of authentication.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    /// Paths that anonymous requests may use.
    pub anonymous: Anonymous,
    /// Tokens of the static token file.
    pub static_tokens: Option<Arc<StaticTokens>>,
    /// True if nodes may join with bootstrap tokens, which are stored in secrets.
    pub bootstrap_tokens: bool,
    /// Headers and allowed names of front proxies, if there are any.
    pub front_proxy: Option<FrontProxy>,
    /// Further issuers whose tokens are accepted, beside the current issuer of the server.
    pub further_issuers: Vec<String>,
    /// Audiences that identify this server in tokens; empty for the names of the issuers.
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

/// The authenticators of a server.
pub(crate) struct Authentication {
    /// Authenticators of credentials; the first that recognizes one decides.
    authenticators: Vec<Box<dyn Authenticator>>,
    /// Runs if no authenticator recognized a credential and none rejected one.
    anonymous: AnonymousAuthenticator,
    /// The issuers of the default cluster.
    issuers: Vec<String>,
    /// The configured audiences; empty for the issuers of each cluster.
    configured_audiences: Vec<String>,
    /// Headers of the configured front proxies and the default ones, to be removed from requests.
    proxies: Vec<FrontProxy>,
}

impl Authentication {
    /// Creates the authenticators for a signer and a configuration.
    pub(crate) fn new(config: &AuthenticationConfig, signer: Option<&Arc<dyn TokenSigner>>) -> Self {
        let mut issuers: Vec<String> = signer.map(|signer| signer.issuer().to_owned()).into_iter().collect();
        issuers.extend(config.further_issuers.iter().cloned());
        let mut authenticators: Vec<Box<dyn Authenticator>> = Vec::new();
        let mut proxies = vec![FrontProxy::default()];
        if let Some(settings) = config.front_proxy.clone() {
            proxies.push(settings.clone());
            authenticators.push(Box::new(FrontProxyAuthenticator { settings }));
        }
        authenticators.push(Box::new(CertificateAuthenticator));

        let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
        if let Some(file) = config.static_tokens.clone() {
            tokens.push(Box::new(StaticTokenAuthenticator { tokens: file }));
        }
        if let Some(signer) = signer.cloned() {
            tokens.push(Box::new(ServiceAccountAuthenticator::new(signer, issuers.clone())));
        }
        if config.bootstrap_tokens {
            tokens.push(Box::new(BootstrapTokenAuthenticator::new()));
        }
        authenticators.push(Box::new(BearerAuthenticator(tokens)));
        let anonymous = AnonymousAuthenticator::new(config.anonymous);
        Self {
            authenticators,
            anonymous,
            issuers,
            configured_audiences: config.api_audiences.clone(),
            proxies,
        }
    }

    /// The audiences that identify this server in tokens of a cluster: the configured ones, or the cluster's issuers.
    pub(crate) fn api_audiences(&self, cluster: &Cluster) -> Cow<'_, [String]> {
        if !self.configured_audiences.is_empty() {
            return Cow::Borrowed(&self.configured_audiences);
        }
        if cluster.id() == DEFAULT_CLUSTER {
            return Cow::Borrowed(&self.issuers);
        }
        self.issuers.iter().map(|base| issuer::of_cluster(base, cluster.id()).into_owned()).collect()
    }

    /// Authenticates a request to a cluster, and removes all credentials from it.
    pub(crate) async fn authenticate(
        &self,
        parts: &mut Parts,
        cluster: &Cluster,
        now: Timestamp,
        metrics: &ServerMetrics,
    ) -> Result<Caller, Refusal> {
        let api_audiences = self.api_audiences(cluster);
        let attempt = Attempt {
            headers: &parts.headers,
            peer: parts.extensions.get::<PeerIdentity>(),
            in_process: in_process_scope(&parts.extensions),
            certificate: parts.extensions.get::<PeerCertificate>(),
            path: parts.uri.path(),
            cluster,
            api_audiences: &api_audiences,
            audiences: &api_audiences,
            now,
            metrics,
        };
        match self.run(&attempt).await {
            Ok(Some(Authenticated { identity, scope, .. })) => {
                self.strip(&mut parts.headers);
                let all_clusters = scope == CredentialScope::AllClusters;
                Ok(Caller { identity, all_clusters })
            }
            Ok(None) => Err(self.refusal(&parts.headers, None)),
            Err(error) => Err(self.refusal(&parts.headers, Some(&error))),
        }
    }

    /// Authenticates a token for a TokenReview.
    ///
    /// # Errors
    /// If the token is invalid.
    pub(crate) async fn review(
        &self,
        token: &str,
        audiences: &[String],
        cluster: &Cluster,
        now: Timestamp,
        metrics: &ServerMetrics,
    ) -> Outcome {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        headers.insert(header::AUTHORIZATION, value.map_err(|_| AuthenticationError::InvalidToken)?);
        let api_audiences = self.api_audiences(cluster);
        let audiences = if audiences.is_empty() { &*api_audiences } else { audiences };
        let attempt = Attempt {
            headers: &headers,
            peer: None,
            in_process: None,
            certificate: None,
            path: "",
            cluster,
            api_audiences: &api_audiences,
            audiences,
            now,
            metrics,
        };
        self.run(&attempt).await
    }

    async fn run(&self, attempt: &Attempt<'_>) -> Outcome {
        let mut errors = Vec::new();
        for authenticator in &self.authenticators {
            match authenticator.authenticate(attempt).await {
                Ok(None) => {}
                Ok(Some(found)) if !found.scope.covers(attempt.cluster) => {
                    errors.push(AuthenticationError::WrongCluster);
                }
                Ok(found) => return Ok(found),
                Err(error) => errors.push(error),
            }
        }
        match AuthenticationError::of(errors) {
            None => self.anonymous.authenticate(attempt).await,
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
            // At debug level, because any client can cause such errors at any rate.
            tracing::debug!(%error, "unable to authenticate the request");
        }
        let refusal = Refusal::unauthorized();
        if bearer::has_extra_space(headers) { refusal.warned(bearer::EXTRA_SPACE) } else { refusal }
    }
}

/// The scope that a component of this process set on its request. Requests over the network have none.
fn in_process_scope(extensions: &Extensions) -> Option<&CredentialScope> {
    if extensions.get::<Remote>().is_some() { None } else { extensions.get() }
}
