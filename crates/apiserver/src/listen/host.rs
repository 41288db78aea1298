//! The `Host` header, which every HTTP/1.1 request has exactly once.
//!
//! Proxies in front of the server route by this header; they may interpret a request with none or two of them
//! differently from this server. Go's `net/http` rejects the same requests (`conn.readRequest` and `readRequest`), and
//! accepts HTTP/1.0 without the header. HTTP/2 uses `:authority`, and `Host` only if that is missing, so no HTTP/2
//! request is rejected.

use std::net::IpAddr;

use http::{HeaderMap, Method, Request, Version, header};

/// Returns the error of an invalid `Host` header, with the message of Go; none if it is valid.
pub(super) fn fault<B>(request: &Request<B>) -> Option<&'static str> {
    // Hyper accepts HTTP/1.0, 1.1 and 2.
    if request.version() >= Version::HTTP_2 {
        return None;
    }
    let mut hosts = hosts(request.headers());
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some("400 Bad Request"),
        (Some(host), None) if !host.iter().all(|byte| is_allowed(*byte)) => {
            Some("400 Bad Request: malformed Host header")
        }
        (None, _) if request.version() == Version::HTTP_11 && request.method() != Method::CONNECT => {
            Some("400 Bad Request: missing required Host header")
        }
        _ => None,
    }
}

/// Returns an error if a request over plain HTTP on the loopback interface may come from a web page: its `Host` is not
/// this machine (DNS rebinding), or it has an `Origin`. Such requests carry no credential, so nothing else
/// distinguishes them from requests of the user.
pub(super) fn remote_fault<B>(request: &Request<B>) -> Option<&'static str> {
    let authority = request.uri().host().map(str::to_owned);
    let host =
        hosts(request.headers()).next().map(|host| host_name(&String::from_utf8_lossy(host)).to_owned());
    match authority.or(host) {
        Some(host) if !is_local(&host) => Some("400 Bad Request: plain HTTP is served for localhost only"),
        _ if request.headers().contains_key(header::ORIGIN) => {
            Some("400 Bad Request: plain HTTP is not served to web pages")
        }
        _ => None,
    }
}

/// Strips the port from a host.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

fn hosts(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(header::HOST).iter().map(http::HeaderValue::as_bytes)
}

/// Returns true for characters that may occur in a host and port (`validHostByte` of golang.org/x/net/http/httpguts).
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;='[]_~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, hosts: &[&str], expected: Option<&str>) {
        let mut request = Request::builder().version(version);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        assert_eq!(fault(&request.body(()).unwrap()), expected, "{version:?} {hosts:?}");
    }

    #[test]
    fn plain_http_request_for_another_host_or_with_an_origin_is_rejected() {
        let fault = |uri: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            remote_fault(&request.body(()).unwrap())
        };
        for host in ["localhost:6443", "LOCALHOST", "127.0.0.1:1", "[::1]:6443", "127.8.9.1"] {
            assert_eq!(fault("/api", &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example:6443", "localhost.evil.example", "192.0.2.1", "", "[2001:db8::1]:6443"] {
            assert!(fault("/api", &[("host", host)]).is_some(), "{host}");
        }
        assert_eq!(fault("http://localhost:6443/api", &[]), None);
        assert!(fault("http://evil.example/api", &[]).is_some());
        assert!(fault("/api", &[("host", "localhost"), ("origin", "http://evil.example")]).is_some());
    }

    #[test]
    fn http_1_1_request_without_one_host_header_is_rejected() {
        check(Version::HTTP_11, &[], Some("400 Bad Request: missing required Host header"));
        check(Version::HTTP_11, &["a", "a"], Some("400 Bad Request"));
        check(Version::HTTP_11, &["a", "b"], Some("400 Bad Request"));
        check(Version::HTTP_10, &["a", "b"], Some("400 Bad Request"));
        check(Version::HTTP_11, &["a/b"], Some("400 Bad Request: malformed Host header"));
        check(Version::HTTP_11, &["a@b"], Some("400 Bad Request: malformed Host header"));
    }

    #[test]
    fn request_with_one_host_header_or_none_needed_is_accepted() {
        for host in ["a", "a.b:6443", "[::1]:6443", ""] {
            check(Version::HTTP_11, &[host], None);
        }
        check(Version::HTTP_10, &[], None);
        check(Version::HTTP_2, &[], None);
        check(Version::HTTP_2, &["a", "b"], None);
    }
}
