//! Settings of authentication, and the files they name.

mod load;

use std::path::PathBuf;
use std::time::Duration;

pub use coracle_apiserver::FrontProxy;
/// The type of header names in [`FrontProxy`].
pub use http::HeaderName;
pub(crate) use load::{LoadedAuthentication, load};

use crate::error::ConfigError;

/// The issuer of service account tokens, as in kubeadm.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Limits of the maximum token lifetime, as in kube-apiserver.
const MIN_MAX_EXPIRATION: Duration = Duration::from_secs(3600);
const MAX_MAX_EXPIRATION: Duration = Duration::from_secs(1 << 32);

/// Authentication settings other than client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Allow anonymous requests to all endpoints and not only to health endpoints. They are still
    /// authorized.
    pub anonymous: bool,
    /// A file of tokens: lines of `token,user,uid,"group1,group2"`.
    pub token_file: Option<PathBuf>,
    /// Allow nodes to join with bootstrap tokens stored in Secrets.
    pub bootstrap_tokens: bool,
    /// Front proxies, which pass the user in headers.
    pub front_proxy: Option<FrontProxyConfig>,
    /// Service account tokens.
    pub service_accounts: ServiceAccountTokens,
    /// Audiences of this server's tokens; none for the names of the issuers.
    pub api_audiences: Vec<String>,
}

/// Trusted front proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxyConfig {
    /// The authorities of their client certificates, in PEM.
    pub ca_file: PathBuf,
    /// The headers with user information, and the accepted certificate names.
    pub headers: FrontProxy,
}

/// Settings of service account tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountTokens {
    /// Token issuers: the first one is used for new tokens, all of them are accepted.
    pub issuers: Vec<String>,
    /// Files of additional keys for verification, public or private, in PEM.
    pub key_files: Vec<PathBuf>,
    /// URL of the key set that the discovery document names; by default the one this server serves.
    pub jwks_uri: Option<String>,
    /// Maximum lifetime of tokens.
    pub max_expiration: Option<Duration>,
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            anonymous: false,
            token_file: None,
            bootstrap_tokens: true,
            front_proxy: None,
            service_accounts: ServiceAccountTokens::default(),
            api_audiences: Vec::new(),
        }
    }
}

impl Default for ServiceAccountTokens {
    fn default() -> Self {
        let issuers = vec![DEFAULT_ISSUER.to_owned()];
        Self { issuers, key_files: Vec::new(), jwks_uri: None, max_expiration: None }
    }
}

impl Authentication {
    /// Validates the settings.
    ///
    /// # Errors
    /// If an issuer, an audience, a URL or a lifetime is invalid.
    pub fn checked(self) -> Result<Self, ConfigError> {
        let accounts = &self.service_accounts;
        if accounts.issuers.is_empty() || accounts.issuers.iter().any(String::is_empty) {
            return Err(ConfigError::Issuer);
        }
        if self.api_audiences.iter().any(String::is_empty) {
            return Err(ConfigError::Audience);
        }
        if let Some(uri) = accounts.jwks_uri.as_deref().filter(|uri| !uri.starts_with("https://")) {
            return Err(ConfigError::KeySetUri { text: uri.to_owned() });
        }
        let possible = MIN_MAX_EXPIRATION..=MAX_MAX_EXPIRATION;
        if accounts.max_expiration.is_some_and(|limit| !possible.contains(&limit)) {
            return Err(ConfigError::MaxTokenExpiration);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Authentication)) -> String {
        let mut settings = Authentication::default();
        change(&mut settings);
        settings.checked().unwrap_err().to_string()
    }

    #[test]
    fn invalid_setting_is_rejected_by_its_flag() {
        assert!(Authentication::default().checked().is_ok());
        let none = refused(|settings| settings.service_accounts.issuers.clear());
        assert!(none.contains("--service-account-issuer"), "{none}");
        let plain = refused(|settings| settings.service_accounts.jwks_uri = Some("http://a".into()));
        assert!(plain.contains("--service-account-jwks-uri"), "{plain}");
        let minute = Some(Duration::from_secs(60));
        let short = refused(|settings| settings.service_accounts.max_expiration = minute);
        assert!(short.contains("--service-account-max-token-expiration"), "{short}");
        let empty = refused(|settings| settings.api_audiences = vec![String::new()]);
        assert!(empty.contains("--api-audiences"), "{empty}");
    }
}
