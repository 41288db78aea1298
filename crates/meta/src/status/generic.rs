//! `Status` for an HTTP status code, for failures without a more specific message.

use super::{Details, Reason, Status};
use crate::field::quoted;

impl Status {
    /// Creates a failure with the default message of the code. For some codes the message contains
    /// `server_message`; the details are present, but empty.
    pub fn generic(code: u16, server_message: &str) -> Self {
        let (reason, message) = match code {
            400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
            401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
            403 => (Reason::Forbidden, server_message),
            404 => (Reason::NotFound, "the server could not find the requested resource"),
            405 => {
                let message = "the server does not allow this method on the requested resource";
                (Reason::MethodNotAllowed, message)
            }
            406 if server_message.is_empty() || server_message == "unknown" => {
                let message = "the server was unable to respond with a content type that the client supports";
                (Reason::NotAcceptable, message)
            }
            406 => (Reason::NotAcceptable, server_message),
            409 => (Reason::Conflict, "the server reported a conflict"),
            415 => (Reason::UnsupportedMediaType, server_message),
            422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
            429 => {
                let message = "the server has received too many requests and has asked us to try again later";
                (Reason::TooManyRequests, message)
            }
            503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
            504 => {
                let message = "the server was unable to return a response in the time allotted, but may still be processing the request";
                (Reason::Timeout, message)
            }
            _ => return Self::other(code, server_message),
        };
        Self { details: Some(Details::default()), ..Self::failure(reason, message) }
    }

    fn other(code: u16, server_message: &str) -> Self {
        let (reason, message) = if code >= 500 {
            let quoted_message = quoted(server_message);
            let message = format!(
                "an error on the server ({quoted_message}) has prevented the request from succeeding"
            );
            (Reason::InternalError, message)
        } else {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            (Reason::Unknown, message)
        };
        Self { code, details: Some(Details::default()), ..Self::failure(reason, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_status_has_message_of_code() {
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#;
        assert_eq!(serde_json::to_string(&Status::generic(404, "")).unwrap(), text);
        for code in [400, 401, 403, 404, 405, 406, 409, 415, 422, 429, 500, 502, 503, 504, 418] {
            let status = Status::generic(code, "why");
            assert_eq!((status.code, status.details), (code, Some(Details::default())));
            assert!(!status.message.is_empty());
        }
        let message = "an error on the server (\"why\") has prevented the request from succeeding";
        assert_eq!(Status::generic(500, "why").message, message);
    }
}
