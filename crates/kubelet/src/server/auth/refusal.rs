//! Responses to rejected requests, in the kubelet's words.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::access::Access;
use super::review::User;

/// Why a request is rejected.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Authentication failed.
    Unauthorized,
    /// The path is ambiguous.
    DubiousPath,
    /// The user lacks the permission.
    Forbidden(String),
    /// The authorization review failed.
    Undecided(String),
}

impl Refusal {
    pub(super) fn forbidden(user: &User, accesses: &[Access]) -> Self {
        let parts: Vec<&str> = accesses.iter().map(|access| access.subresource).collect();
        let verb = accesses.first().map_or("", |access| access.verb);
        let parts = parts.join(" ");
        Self::Forbidden(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{parts}])\n",
            user.name
        ))
    }

    pub(super) fn undecided(user: &User, access: &Access) -> Self {
        Self::Undecided(format!(
            "Authorization error (user={}, verb={}, resource=nodes, subresource={})",
            user.name, access.verb, access.subresource
        ))
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let (status, text) = match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()),
            Self::DubiousPath => (StatusCode::BAD_REQUEST, "Bad Request".to_owned()),
            Self::Forbidden(text) => (StatusCode::FORBIDDEN, text),
            Self::Undecided(text) => (StatusCode::INTERNAL_SERVER_ERROR, text),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}
