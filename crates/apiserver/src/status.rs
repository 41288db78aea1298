//! The `Status` object: the only place that turns a refusal into a status code.

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use serde::Serialize;

use crate::body::{MAX_REQUEST_BODY_BYTES, ResponseBody};

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing is served at this path.
    NotFound,
    /// The path is served, but only for these methods.
    MethodNotAllowed { allowed: &'static [Method] },
    /// The body is over [`MAX_REQUEST_BODY_BYTES`].
    TooLarge,
}

/// `Status` of meta/v1, as upstream writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: String,
    reason: &'static str,
    details: Empty,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

impl Refusal {
    /// The code, the reason for machines and the message for people.
    fn describe(self) -> (StatusCode, &'static str, String) {
        match self {
            Refusal::NotFound => (
                StatusCode::NOT_FOUND,
                "NotFound",
                "the server could not find the requested resource".to_owned(),
            ),
            Refusal::MethodNotAllowed { .. } => (
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource".to_owned(),
            ),
            Refusal::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {MAX_REQUEST_BODY_BYTES}"),
            ),
        }
    }

    /// The whole answer.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let (code, reason, message) = self.describe();
        let status = Status {
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            status: "Failure",
            message,
            reason,
            details: Empty {},
            code: code.as_u16(),
        };
        let json = serde_json::to_vec(&status).expect("a Status has only strings and numbers");
        let mut response = Response::new(ResponseBody::new(Bytes::from(json)));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        if let Refusal::MethodNotAllowed { allowed } = self {
            let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
            let value = header::HeaderValue::from_str(&names.join(", ")).expect("methods are tokens");
            headers.insert(header::ALLOW, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const METHODS: &[Method] = &[Method::GET, Method::HEAD];

    async fn check(refusal: Refusal, code: u16, body: &str) {
        let response = refusal.into_response();
        assert_eq!(response.status().as_u16(), code);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), body);
    }

    #[tokio::test]
    async fn every_refusal_has_its_code_and_body() {
        check(
            Refusal::NotFound,
            404,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
        )
        .await;
        check(
            Refusal::MethodNotAllowed { allowed: METHODS },
            405,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#,
        )
        .await;
        check(
            Refusal::TooLarge,
            413,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","details":{},"code":413}"#,
        )
        .await;
    }

    #[test]
    fn a_refused_method_names_the_allowed_ones() {
        let response = Refusal::MethodNotAllowed { allowed: METHODS }.into_response();
        assert_eq!(response.headers()[header::ALLOW], "GET, HEAD");
    }
}
