//! Authentication by a front proxy, which authenticates users itself and sends their identity in headers.
//!
//! The headers are trusted only if the proxy's client certificate is signed by the front proxy CA and has an allowed
//! common name. Otherwise they are ignored, and they are always removed before later filters. Users of a front proxy
//! are users of the default cluster only.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_registry::Identity;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::authenticator::{
    Attempt, Authenticated, AuthenticationError, Authenticator, Outcome, Pending, implicit_audiences,
};
use crate::credential_scope::CredentialScope;
use crate::identity::authenticated;

/// The headers of front proxies, and the proxies that may send them. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxy {
    /// Allowed common names of proxies; empty to allow every certificate of the front proxy CA.
    pub allowed_names: Vec<String>,
    /// The first of these headers that is present has the user name.
    pub username_headers: Vec<HeaderName>,
    /// The first of these headers that is present has the UID.
    pub uid_headers: Vec<HeaderName>,
    /// Each value of these headers is a group.
    pub group_headers: Vec<HeaderName>,
    /// Headers with these prefixes have the user's extra fields; the key follows the prefix.
    pub extra_header_prefixes: Vec<String>,
}

impl Default for FrontProxy {
    /// The headers that Kubernetes uses, from any proxy with a certificate of the front proxy CA.
    fn default() -> Self {
        Self {
            allowed_names: Vec::new(),
            username_headers: vec![HeaderName::from_static("x-remote-user")],
            uid_headers: vec![HeaderName::from_static("x-remote-uid")],
            group_headers: vec![HeaderName::from_static("x-remote-group")],
            extra_header_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

impl FrontProxy {
    /// Removes all headers with a user's identity.
    pub(super) fn strip(&self, headers: &mut HeaderMap) {
        let named = [&self.username_headers, &self.uid_headers, &self.group_headers].into_iter().flatten();
        for name in named {
            headers.remove(name);
        }
        let is_extra = |name: &&HeaderName| self.extra_key(name).is_some();
        let extra: Vec<HeaderName> = headers.keys().filter(is_extra).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }

    fn extra_key<'a>(&self, name: &'a HeaderName) -> Option<&'a str> {
        self.extra_header_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()))
    }

    fn identity(&self, headers: &HeaderMap) -> Option<Identity> {
        let name = first(headers, &self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| texts(headers, name)).map(str::to_owned);
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let (Some(key), Ok(value)) = (self.extra_key(name), value.to_str()) else { continue };
            // A key with invalid escapes is used unchanged, as in kube-apiserver.
            let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), String::from);
            extra.entry(key).or_default().push(value.to_owned());
        }
        Some(Identity {
            name: name.to_owned(),
            uid: first(headers, &self.uid_headers).unwrap_or_default().to_owned(),
            groups: groups.collect(),
            extra,
        })
    }
}

/// The non-empty values of a header.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

fn first<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Option<&'a str> {
    names.iter().find_map(|name| headers.get(name)?.to_str().ok().filter(|text| !text.is_empty()))
}

pub(super) struct FrontProxyAuthenticator {
    pub(super) settings: FrontProxy,
}

impl FrontProxyAuthenticator {
    fn judge(&self, attempt: &Attempt<'_>) -> Outcome {
        let Some(certificate) = attempt.certificate else { return Ok(None) };
        let Some(audiences) = implicit_audiences(attempt.api_audiences, attempt.audiences) else {
            return Ok(None);
        };
        let unproven = || AuthenticationError::refused("the certificate is of no front proxy");
        let proxy = certificate.front_proxy().ok_or_else(unproven)?;
        if certificate.has_expired(attempt.now) {
            return Err(unproven());
        }
        let allowed = &self.settings.allowed_names;
        if !allowed.is_empty() && !allowed.iter().any(|name| name == proxy) {
            return Err(AuthenticationError::refused("x509: subject is not in the allowed list"));
        }
        let identity = self.settings.identity(attempt.headers).map(|identity| {
            let identity = Arc::new(authenticated(identity));
            Authenticated { identity, scope: CredentialScope::DefaultCluster, audiences }
        });
        Ok(identity)
    }
}

impl Authenticator for FrontProxyAuthenticator {
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a> {
        Box::pin(std::future::ready(self.judge(attempt)))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn identity_is_read_from_headers() {
        let jane = FrontProxy::default().identity(&headers(&[
            ("x-remote-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "dev"),
            ("x-remote-group", ""),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.com%2fscopes", "view"),
            ("x-remote-extra-bad%ff", "kept"),
        ]));
        let jane = jane.unwrap();
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", "ops"]);
        assert_eq!(jane.extra["example.com/scopes"], ["view"]);
        assert_eq!(jane.extra["bad%ff"], ["kept"]);
        assert_eq!(FrontProxy::default().identity(&headers(&[("x-remote-group", "dev")])), None);
    }

    #[test]
    fn strip_removes_all_identity_headers() {
        let mut headers = headers(&[
            ("x-remote-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-a", "x"),
            ("x-remote-extra-a", "y"),
            ("x_remote_user", "stays, and means nothing"),
            ("accept", "stays"),
        ]);
        FrontProxy::default().strip(&mut headers);
        assert_eq!(headers.len(), 2);
    }
}
