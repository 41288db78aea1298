//! Flags of authentication, under the names of kube-apiserver.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgAction, Args as ClapArgs};
use coracle::ConfigError;
use coracle::authentication::{Authentication, DEFAULT_ISSUER, FrontProxyConfig, ServiceAccountTokens};
use coracle::authentication::{FrontProxy, HeaderName};

use crate::duration::duration;

/// Authentication methods other than client certificates.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationArgs {
    /// Allow anonymous requests (user system:anonymous, subject to authorization). If false, only health endpoints are
    /// anonymous.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = false, default_missing_value = "true")]
    anonymous_auth: bool,
    /// File of static tokens for the default cluster: lines of token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accept bootstrap tokens (secrets of type bootstrap.kubernetes.io/token).
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true")]
    enable_bootstrap_token_auth: bool,
    /// Accepted token audiences, in all clusters [default: the issuers of each cluster].
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    api_audiences: Vec<String>,
    #[command(flatten)]
    service_accounts: ServiceAccountArgs,
    #[command(flatten)]
    front_proxy: FrontProxyArgs,
}

/// Service account token settings.
#[derive(Debug, ClapArgs)]
struct ServiceAccountArgs {
    /// Issuer (`iss`) of service account tokens; may be repeated, and new tokens have the first. The issuer of another
    /// cluster is this URL and /clusters/ID.
    #[arg(long, value_name = "URL", default_value = DEFAULT_ISSUER)]
    service_account_issuer: Vec<String>,
    /// Additional public key for verifying service account tokens (PEM); may be repeated.
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// URL of the key set that verifies service account tokens [default: this server's].
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
    /// Maximum lifetime of service account tokens, such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    service_account_max_token_expiration: Option<Duration>,
}

/// Front proxy (`requestheader`) settings.
#[derive(Debug, ClapArgs)]
struct FrontProxyArgs {
    /// CA bundle for front-proxy client certificates of the default cluster (PEM).
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Accepted common names of front proxies [default: any].
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', requires = CA_FILE)]
    requestheader_allowed_names: Vec<String>,
    /// Headers of the user name [default: X-Remote-User].
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', requires = CA_FILE)]
    requestheader_username_headers: Vec<HeaderName>,
    /// Headers of the user's UID [default: X-Remote-Uid].
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', requires = CA_FILE)]
    requestheader_uid_headers: Vec<HeaderName>,
    /// Headers of groups [default: X-Remote-Group].
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', requires = CA_FILE)]
    requestheader_group_headers: Vec<HeaderName>,
    /// Prefix of extra headers [default: X-Remote-Extra-].
    #[arg(long, value_name = "PREFIX[,PREFIX]", value_delimiter = ',', requires = CA_FILE)]
    requestheader_extra_headers_prefix: Vec<String>,
}

const CA_FILE: &str = "requestheader_client_ca_file";

impl AuthenticationArgs {
    pub(crate) fn settings(&self) -> Result<Authentication, ConfigError> {
        let accounts = &self.service_accounts;
        let settings = Authentication {
            anonymous: self.anonymous_auth,
            token_file: self.token_auth_file.clone(),
            bootstrap_tokens: self.enable_bootstrap_token_auth,
            front_proxy: self.front_proxy.settings(),
            service_accounts: ServiceAccountTokens {
                issuers: accounts.service_account_issuer.clone(),
                key_files: accounts.service_account_key_file.clone(),
                jwks_uri: accounts.service_account_jwks_uri.clone(),
                max_expiration: accounts.service_account_max_token_expiration,
            },
            api_audiences: self.api_audiences.clone(),
        };
        settings.checked()
    }
}

impl FrontProxyArgs {
    fn settings(&self) -> Option<FrontProxyConfig> {
        let usual = FrontProxy::default();
        let given = |given: &Vec<HeaderName>, usual| if given.is_empty() { usual } else { given.clone() };
        let prefixes: Vec<String> =
            self.requestheader_extra_headers_prefix.iter().map(|prefix| prefix.to_lowercase()).collect();
        let headers = FrontProxy {
            allowed_names: self.requestheader_allowed_names.clone(),
            username_headers: given(&self.requestheader_username_headers, usual.username_headers),
            uid_headers: given(&self.requestheader_uid_headers, usual.uid_headers),
            group_headers: given(&self.requestheader_group_headers, usual.group_headers),
            extra_header_prefixes: if prefixes.is_empty() { usual.extra_header_prefixes } else { prefixes },
        };
        Some(FrontProxyConfig { ca_file: self.requestheader_client_ca_file.clone()?, headers })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AuthenticationArgs,
    }

    fn settings(line: &str) -> Result<Authentication> {
        Ok(Line::try_parse_from(line.split_whitespace())?.args.settings()?)
    }

    #[test]
    fn no_flags_give_library_defaults() {
        assert_eq!(settings("x").unwrap(), Authentication::default());
    }

    #[test]
    fn flags_accept_kube_apiserver_syntax() {
        assert!(settings("x --anonymous-auth").unwrap().anonymous);
        assert!(settings("x --anonymous-auth=true").unwrap().anonymous);
        assert!(!settings("x --anonymous-auth=false").unwrap().anonymous);
        assert!(!settings("x --enable-bootstrap-token-auth=false").unwrap().bootstrap_tokens);
        let line = "x --service-account-issuer https://a --service-account-issuer https://b \
                    --api-audiences c,d --service-account-max-token-expiration 1h30m --token-auth-file /t";
        let settings = settings(line).unwrap();
        assert_eq!(settings.service_accounts.issuers, ["https://a", "https://b"]);
        assert_eq!(settings.api_audiences, ["c", "d"]);
        assert_eq!(settings.service_accounts.max_expiration, Some(Duration::from_secs(5400)));
        assert_eq!(settings.token_file, Some(PathBuf::from("/t")));
    }

    #[test]
    fn front_proxy_flags_without_ca_are_rejected() {
        assert!(settings("x --requestheader-allowed-names a").is_err());
        let line = "x --requestheader-client-ca-file /ca --requestheader-allowed-names a,b \
                    --requestheader-username-headers X-User --requestheader-extra-headers-prefix X-More-";
        let proxy = settings(line).unwrap().front_proxy.unwrap();
        assert_eq!(proxy.headers.allowed_names, ["a", "b"]);
        assert_eq!(proxy.headers.username_headers, ["x-user"]);
        assert_eq!(proxy.headers.group_headers, ["x-remote-group"]);
        assert_eq!(proxy.headers.extra_header_prefixes, ["x-more-"]);
    }
}
