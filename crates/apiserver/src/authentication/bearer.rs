//! Bearer tokens in requests: in the header `Authorization` or, for browsers, which cannot set it, among the
//! subprotocols of a WebSocket.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};

use super::authenticator::{
    Attempt, AuthenticationError, Authenticator, BearerToken, Outcome, Pending, TokenAuthenticator,
};
use crate::websocket;

/// Longer tokens are rejected without being examined. Ours have about a thousand bytes, and those of identity providers
/// some thousand; hashing longer ones would be work that any client could cause.
const MAX_TOKEN_BYTES: usize = 32 << 10;

/// The prefix of a subprotocol that contains a token (`pkg/authentication/request/websocket` of k8s.io/apiserver).
const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The warning to a client whose token is ignored because of an extra space.
pub(crate) const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Tries the token authenticators in this order.
pub(super) struct BearerAuthenticator(pub(super) Vec<Box<dyn TokenAuthenticator>>);

impl BearerAuthenticator {
    async fn judge(&self, attempt: &Attempt<'_>) -> Outcome {
        let token = match in_authorization(attempt.headers)? {
            Some(token) => token,
            None => match in_protocols(attempt.headers)? {
                Some(token) => token,
                None => return Ok(None),
            },
        };
        if token.expose().len() > MAX_TOKEN_BYTES {
            return Err(AuthenticationError::InvalidToken);
        }
        // kube-apiserver has one more kind of token, its own, which no client can have.
        let mut errors = vec![AuthenticationError::InvalidToken];
        for authenticator in &self.0 {
            match authenticator.authenticate_token(&token, attempt).await {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => errors.push(error),
            }
        }
        AuthenticationError::of(errors).map_or(Ok(None), Err)
    }
}

impl Authenticator for BearerAuthenticator {
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a> {
        Box::pin(self.judge(attempt))
    }
}

/// The token of the header `Authorization`, if it is a bearer token. Two headers are an error: it is ambiguous which
/// one counts, and a proxy on the way may have used the other.
fn in_authorization(headers: &HeaderMap) -> Result<Option<BearerToken>, AuthenticationError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(AuthenticationError::InvalidToken);
    }
    let Ok(text) = value.to_str() else { return Err(AuthenticationError::InvalidToken) };
    Ok(second_word(text).filter(|token| !token.is_empty()).map(BearerToken::new))
}

/// The text after `Bearer`; empty if two spaces follow.
fn second_word(authorization: &str) -> Option<&str> {
    let mut words = authorization.trim().split(' ');
    let scheme = words.next().filter(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    scheme.and(words.next())
}

/// Returns true if there is a bearer token that is ignored because of an extra space.
pub(crate) fn has_extra_space(headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(second_word).is_some_and(str::is_empty)
}

/// The token among the subprotocols of a WebSocket, if there is one.
fn in_protocols(headers: &HeaderMap) -> Result<Option<BearerToken>, AuthenticationError> {
    if !websocket::is_requested(headers) {
        return Ok(None);
    }
    let mut encoded = protocols(headers).filter_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX));
    let Some(token) = encoded.next() else { return Ok(None) };
    if encoded.next().is_some() {
        return Err(AuthenticationError::refused("multiple base64.bearer.authorization tokens specified"));
    }
    let malformed = || AuthenticationError::refused("invalid base64.bearer.authorization token encoding");
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| malformed())?;
    let no_text = || AuthenticationError::refused("invalid base64.bearer.authorization token");
    let token = String::from_utf8(bytes).map_err(|_| no_text())?;
    if token.is_empty() {
        return Ok(None);
    }
    // The subprotocol with the token is removed and another is selected in the response, so there must be another.
    if protocols(headers).all(|protocol| protocol.starts_with(PROTOCOL_PREFIX)) {
        return Err(AuthenticationError::refused("missing additional subprotocol"));
    }
    Ok(Some(BearerToken::new(token)))
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).map(str::trim)
}

/// Removes every token from an authenticated request, so that later code cannot use it.
pub(super) fn strip(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    if !headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL)
        || !protocols(headers).any(|protocol| protocol.starts_with(PROTOCOL_PREFIX))
    {
        return;
    }
    let others: Vec<&str> =
        protocols(headers).filter(|protocol| !protocol.starts_with(PROTOCOL_PREFIX)).collect();
    match HeaderValue::from_str(&others.join(",")) {
        Ok(value) if !others.is_empty() => drop(headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value)),
        _ => drop(headers.remove(header::SEC_WEBSOCKET_PROTOCOL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorization(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        headers
    }

    fn websocket(protocols: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocols).unwrap());
        headers
    }

    fn token(found: Result<Option<BearerToken>, AuthenticationError>) -> Option<String> {
        found.unwrap().map(|token| token.expose().to_owned())
    }

    #[test]
    fn token_follows_the_bearer_scheme() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  BEARER abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("abc", None),
            ("", None),
        ] {
            assert_eq!(token(in_authorization(&authorization(&[value]))).as_deref(), expected, "{value}");
        }
        assert!(has_extra_space(&authorization(&["Bearer  abc"])));
        assert!(!has_extra_space(&authorization(&["Bearer abc"])));
    }

    #[test]
    fn two_authorization_headers_are_rejected() {
        assert!(in_authorization(&authorization(&["Bearer a", "Bearer a"])).is_err());
        assert!(in_authorization(&authorization(&["Basic a", "Bearer a"])).is_err());
    }

    #[test]
    fn websocket_token_is_read_from_subprotocols() {
        let encoded = format!("{PROTOCOL_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode("abc"));
        let mut headers = websocket(&format!("{encoded}, v4.channel.k8s.io,v5.channel.k8s.io"));
        assert_eq!(token(in_protocols(&headers)).as_deref(), Some("abc"));
        strip(&mut headers);
        assert_eq!(headers[header::SEC_WEBSOCKET_PROTOCOL], "v4.channel.k8s.io,v5.channel.k8s.io");
        assert_eq!(token(in_protocols(&headers)), None);

        assert!(in_protocols(&websocket(&encoded)).is_err());
        assert!(in_protocols(&websocket(&format!("{encoded},{encoded},x"))).is_err());
        assert!(in_protocols(&websocket(&format!("{PROTOCOL_PREFIX}!,x"))).is_err());
        assert!(in_protocols(&websocket(&format!("{PROTOCOL_PREFIX}_w,x"))).is_err());
        let mut plain = websocket(&format!("{encoded},x"));
        plain.remove(header::UPGRADE);
        assert_eq!(token(in_protocols(&plain)), None);
    }
}
