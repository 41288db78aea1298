//! The opening handshake of a WebSocket: parses the request headers and builds the response.
//!
//! kube-apiserver serves watches with golang.org/x/net/websocket; the checks and their codes are those of its
//! `ReadHandshake`, `checkOrigin` and `AcceptHandshake`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::Upgrade;
use crate::body::ResponseBody;
use crate::status::Refusal;

/// The only protocol version (RFC 6455, section 4.1).
const VERSION: &str = "13";

/// Appended to the key of the client before it is hashed (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns true if a request is a WebSocket handshake.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let upgrade = text(headers, header::UPGRADE);
    let connections = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    upgrade.eq_ignore_ascii_case("websocket")
        && connections.map(str::to_ascii_lowercase).any(|value| value.contains("upgrade"))
}

/// A valid request for a WebSocket.
#[derive(Debug)]
pub(crate) struct Handshake {
    accept: HeaderValue,
    protocols: Vec<String>,
}

impl Handshake {
    /// Parses the headers of a request that is a [WebSocket handshake](is_requested).
    pub(crate) fn parse(headers: &HeaderMap) -> Result<Self, Refusal> {
        let key = text(headers, HeaderName::from_static("sec-websocket-key"));
        if key.is_empty() {
            return Err(Refusal::bad_request("missing Sec-WebSocket-Key"));
        }
        if text(headers, header::SEC_WEBSOCKET_VERSION) != VERSION {
            return Err(Refusal::bad_request("missing or bad WebSocket Version"));
        }
        if text(headers, header::ORIGIN).is_empty() {
            return Err(Refusal::forbidden("a WebSocket needs the header Origin"));
        }
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
        let accept = HeaderValue::from_str(&BASE64_STANDARD.encode(digest))
            .map_err(|_| Refusal::bad_request("malformed Sec-WebSocket-Key"))?;
        let protocols = text(headers, header::SEC_WEBSOCKET_PROTOCOL).split(',').map(str::trim);
        let protocols = protocols.filter(|protocol| !protocol.is_empty()).map(ToOwned::to_owned);
        Ok(Self { accept, protocols: protocols.collect() })
    }

    /// Returns the offered subprotocol, if any, for a response that prefers none. Several offers are rejected, as in
    /// kube-apiserver.
    pub(crate) fn only_protocol(&self) -> Result<Option<&str>, Refusal> {
        match self.protocols.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            _ => Err(Refusal::bad_request("missing or bad WebSocket-Protocol")),
        }
    }

    /// Returns the response that upgrades the connection, with the messages in its body.
    pub(crate) fn response(
        &self,
        protocol: Option<&str>,
        upgrade: Upgrade,
        messages: ResponseBody,
    ) -> Response<ResponseBody> {
        let mut response = Response::new(messages);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response.extensions_mut().insert(upgrade);
        response
    }
}

/// The first value of a header; empty if there is none.
fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request of RFC 6455, section 1.3, with some headers set, or removed by an empty value.
    fn request(changes: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let rfc = [
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("origin", "http://example.com"),
        ];
        for (name, value) in rfc.iter().chain(changes) {
            headers.remove(*name);
            if !value.is_empty() {
                headers.insert(*name, HeaderValue::from_static(value));
            }
        }
        headers
    }

    #[test]
    fn websocket_is_requested_by_two_headers() {
        for (changes, expected) in [
            (&[][..], true),
            (&[("upgrade", "WebSocket"), ("connection", "keep-alive, upgrade")], true),
            (&[("upgrade", "")], false),
            (&[("connection", "keep-alive")], false),
            (&[("upgrade", "SPDY/3.1")], false),
        ] {
            assert_eq!(is_requested(&request(changes)), expected, "{changes:?}");
        }
    }

    #[test]
    fn response_accepts_the_key_and_the_only_protocol() {
        let messages = Upgrade { messages: super::super::MessageType::Text };
        let respond = |changes: &[(&'static str, &'static str)]| {
            let handshake = Handshake::parse(&request(changes)).unwrap();
            let protocol = handshake.only_protocol().unwrap().map(ToOwned::to_owned);
            handshake.response(protocol.as_deref(), messages, crate::body::full(""))
        };
        let response = respond(&[]);
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
        assert_eq!(response.extensions().get(), Some(&messages));
        let response = respond(&[("sec-websocket-protocol", "chat")]);
        assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
    }

    #[test]
    fn incomplete_handshakes_are_rejected() {
        for (changes, code) in [
            (("sec-websocket-key", ""), 400),
            (("sec-websocket-version", "8"), 400),
            (("sec-websocket-version", ""), 400),
            (("sec-websocket-protocol", "a, b"), 400),
            (("origin", ""), 403),
        ] {
            let handshake = Handshake::parse(&request(&[changes]));
            let protocol = handshake.and_then(|handshake| handshake.only_protocol().map(|_| ()));
            let response = protocol.unwrap_err().into_response(None);
            assert_eq!(response.status(), code, "{changes:?}");
        }
    }
}
