//! By what the server recognizes its users, and what is read from files for that.

mod load;

use std::path::PathBuf;
use std::time::Duration;

pub use coracle_apiserver::FrontProxy;
/// What the headers of proxies are named by.
pub use http::HeaderName;
pub(crate) use load::{Loaded, load};

use crate::error::ConfigError;

/// Who vouches for the tokens of service accounts, as kubeadm has it.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// For how long tokens may be limited to, as in upstream.
const MIN_MAX_EXPIRATION: Duration = Duration::from_secs(3600);
const MAX_MAX_EXPIRATION: Duration = Duration::from_secs(1 << 32);

/// How users are recognized, beside their certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Whether somebody may ask for anything without saying who it is, and not only whether the server is
    /// well. What is answered is another question.
    pub anonymous: bool,
    /// A file of tokens: lines of `token,user,uid,"group1,group2"`.
    pub token_file: Option<PathBuf>,
    /// Whether nodes may join with the tokens of secrets.
    pub bootstrap_tokens: bool,
    /// Proxies that say in headers who is asking.
    pub front_proxy: Option<FrontProxyConfig>,
    /// Tokens of service accounts.
    pub service_accounts: ServiceAccountTokens,
    /// By which names tokens may mean this server; none for the names of the issuers.
    pub api_audiences: Vec<String>,
}

/// Proxies that are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxyConfig {
    /// The authorities that sign their certificates, in PEM.
    pub ca_file: PathBuf,
    /// Which headers say what, and which of those certificates count.
    pub headers: FrontProxy,
}

/// How tokens of service accounts are made and recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountTokens {
    /// Who vouches for them: the first for those that are made now, all of them for those that are shown.
    pub issuers: Vec<String>,
    /// Files of further keys whose tokens are good, public or private, in PEM.
    pub key_files: Vec<PathBuf>,
    /// Where others find the keys; by default at this server.
    pub jwks_uri: Option<String>,
    /// No token is good for longer.
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
    /// The same, if it makes sense.
    ///
    /// # Errors
    /// If an issuer, a URL or a time cannot be one.
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
    fn what_makes_no_sense_is_refused_by_its_flag() {
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
