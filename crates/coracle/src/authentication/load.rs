//! Loads the files named by the settings, once, at the start. Errors name the file but never its contents.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use coracle_apiserver::{
    Anonymous, AuthenticationConfig, EcdsaSigner, FrontProxy, PublicKey, StaticTokens, TokenPolicy,
};

use super::Authentication;
use crate::error::AuthenticationError;
use crate::pki::{self, AccountKeys};
use crate::trusted_files::{self, OpenError};

/// Path of the key set of service account tokens.
const KEY_SET_PATH: &str = "/openid/v1/jwks";

/// The settings with the contents of the files they name.
pub(crate) struct LoadedAuthentication {
    pub(crate) config: AuthenticationConfig,
    /// The authorities of front proxies from a file, in PEM; none for the server's own.
    proxy_ca: Option<String>,
    pub(crate) policy: TokenPolicy,
    retired_keys: Vec<PublicKey>,
    issuer: String,
}

/// Reads the files. Blocks.
pub(crate) fn load(settings: &Authentication) -> Result<LoadedAuthentication, AuthenticationError> {
    let static_tokens = settings.token_file.as_deref().map(token_file).transpose()?;
    let proxy_ca = settings.front_proxy.as_ref().map(|proxy| read(&proxy.ca_file)).transpose()?;
    let accounts = &settings.service_accounts;
    let retired_keys = accounts.key_files.iter().map(|file| public_key(file)).collect::<Result<_, _>>()?;
    let (issuer, further_issuers) = accounts
        .issuers
        .split_first()
        .map(|(first, rest)| (first.clone(), rest.to_vec()))
        .unwrap_or_default();
    let config = AuthenticationConfig {
        anonymous: if settings.anonymous { Anonymous::Everywhere } else { Anonymous::HealthPaths },
        static_tokens,
        bootstrap_tokens: settings.bootstrap_tokens,
        front_proxy: Some(
            settings.front_proxy.as_ref().map_or_else(own_front_proxy, |proxy| proxy.headers.clone()),
        ),
        further_issuers,
        api_audiences: settings.api_audiences.clone(),
    };
    let policy = TokenPolicy { max_expiration: accounts.max_expiration, jwks_uri: accounts.jwks_uri.clone() };
    Ok(LoadedAuthentication { config, proxy_ca, policy, retired_keys, issuer })
}

/// Accepts proxies with a certificate of the server's own front proxy authority: servers of this cluster.
fn own_front_proxy() -> FrontProxy {
    FrontProxy { allowed_names: vec![pki::FRONT_PROXY_CLIENT.to_owned()], ..FrontProxy::default() }
}

impl LoadedAuthentication {
    /// The signer of tokens with these keys.
    pub(crate) fn signer(&self, keys: &AccountKeys) -> Result<EcdsaSigner, coracle_apiserver::SignerError> {
        let signer = EcdsaSigner::from_pem(&*self.issuer, keys.signing.expose().as_bytes())?;
        let own = keys.retired.iter().map(|pem| PublicKey::from_pem(pem.as_bytes()));
        let own: Vec<PublicKey> = own.collect::<Result<_, _>>()?;
        Ok(own
            .into_iter()
            .chain(self.retired_keys.iter().cloned())
            .fold(signer, EcdsaSigner::with_retired_key))
    }

    /// The authorities of front proxies, in PEM; `own` unless a file is configured.
    pub(crate) fn proxy_ca<'a>(&'a self, own: &'a str) -> &'a str {
        self.proxy_ca.as_deref().unwrap_or(own)
    }

    /// The token policy of a server with this URL, if it can be reached from outside.
    pub(crate) fn policy_at(&self, url: Option<&str>) -> TokenPolicy {
        let here = || url.map(|url| format!("{url}{KEY_SET_PATH}"));
        TokenPolicy { jwks_uri: self.policy.jwks_uri.clone().or_else(here), ..self.policy.clone() }
    }

    /// The data of the ConfigMap `extension-apiserver-authentication`, by which aggregated API servers
    /// authenticate this one.
    pub(crate) fn front_proxy_data(&self, own: &str) -> BTreeMap<String, String> {
        let Some(headers) = &self.config.front_proxy else { return BTreeMap::new() };
        let FrontProxy { allowed_names, username_headers, uid_headers, group_headers, .. } = headers;
        let names = |headers: &[http::HeaderName]| list(headers.iter().map(http::HeaderName::as_str));
        BTreeMap::from([
            ("requestheader-client-ca-file".to_owned(), self.proxy_ca(own).to_owned()),
            ("requestheader-allowed-names".to_owned(), list(allowed_names.iter().map(String::as_str))),
            ("requestheader-username-headers".to_owned(), names(username_headers)),
            ("requestheader-uid-headers".to_owned(), names(uid_headers)),
            ("requestheader-group-headers".to_owned(), names(group_headers)),
            (
                "requestheader-extra-headers-prefix".to_owned(),
                list(headers.extra_header_prefixes.iter().map(String::as_str)),
            ),
        ])
    }
}

/// A JSON array of names.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    serde_json::Value::from_iter(names).to_string()
}

fn token_file(file: &Path) -> Result<Arc<StaticTokens>, AuthenticationError> {
    let malformed = |source| AuthenticationError::TokenFile { path: file.to_owned(), source };
    StaticTokens::from_csv(&read(file)?).map(Arc::new).map_err(malformed)
}

fn public_key(file: &Path) -> Result<PublicKey, AuthenticationError> {
    let unusable = |source| AuthenticationError::Key { path: file.to_owned(), source };
    PublicKey::from_pem(read(file)?.as_bytes()).map_err(unusable)
}

fn read(file: &Path) -> Result<String, AuthenticationError> {
    let unreadable = |source| AuthenticationError::Read { path: file.to_owned(), source };
    let bytes = trusted_files::read_named(file).map_err(|error| match error {
        OpenError::Untrusted(untrusted) => untrusted.into(),
        OpenError::Io(source) => unreadable(source),
    })?;
    String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")))
}
