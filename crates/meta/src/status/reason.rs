//! Machine-readable reasons of failures (`metav1.StatusReason`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No reason is set.
    #[default]
    Unknown,
    /// The client is not authenticated.
    Unauthorized,
    /// The client is not authorized.
    Forbidden,
    /// The object or resource does not exist.
    NotFound,
    /// The object already exists.
    AlreadyExists,
    /// The request conflicts with the current state.
    Conflict,
    /// The resource does not exist any more.
    Gone,
    /// The object is invalid.
    Invalid,
    /// The server timed out; the request had no effect.
    ServerTimeout,
    /// Stored data cannot be decoded.
    StoreReadError,
    /// The server timed out; the request may still take effect.
    Timeout,
    /// The client exceeds its rate limit.
    TooManyRequests,
    /// The request is malformed.
    BadRequest,
    /// The resource does not support the method.
    MethodNotAllowed,
    /// The server supports none of the media types in `Accept`.
    NotAcceptable,
    /// The request body is too large.
    RequestEntityTooLarge,
    /// The media type of the request body is not supported.
    UnsupportedMediaType,
    /// Internal error.
    InternalError,
    /// The revision has been compacted.
    Expired,
    /// The server is unavailable.
    ServiceUnavailable,
    /// Any other reason, set by an admission webhook.
    Other(String),
}

/// All predefined reasons with their string and default HTTP code.
const PREDEFINED: &[(Reason, &str, u16)] = &[
    (Reason::Unknown, "", 500),
    (Reason::Unauthorized, "Unauthorized", 401),
    (Reason::Forbidden, "Forbidden", 403),
    (Reason::NotFound, "NotFound", 404),
    (Reason::AlreadyExists, "AlreadyExists", 409),
    (Reason::Conflict, "Conflict", 409),
    (Reason::Gone, "Gone", 410),
    (Reason::Invalid, "Invalid", 422),
    (Reason::ServerTimeout, "ServerTimeout", 500),
    (Reason::StoreReadError, "StorageReadError", 500),
    (Reason::Timeout, "Timeout", 504),
    (Reason::TooManyRequests, "TooManyRequests", 429),
    (Reason::BadRequest, "BadRequest", 400),
    (Reason::MethodNotAllowed, "MethodNotAllowed", 405),
    (Reason::NotAcceptable, "NotAcceptable", 406),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType", 415),
    (Reason::InternalError, "InternalError", 500),
    (Reason::Expired, "Expired", 410),
    (Reason::ServiceUnavailable, "ServiceUnavailable", 503),
];

impl Reason {
    /// Returns the string of the reason.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(word) => word,
            other => PREDEFINED.iter().find(|(reason, ..)| reason == other).map_or("", |(_, word, _)| word),
        }
    }

    /// Returns the default HTTP status code of the reason.
    pub fn code(&self) -> u16 {
        PREDEFINED.iter().find(|(reason, ..)| reason == self).map_or(500, |(.., code)| *code)
    }

    /// Returns true if no reason is set.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        let predefined = PREDEFINED.iter().find(|(_, text, _)| *text == word);
        predefined.map_or_else(|| Self::Other(word.to_owned()), |(reason, ..)| reason.clone())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from(&*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_round_trips() {
        for (reason, word, code) in PREDEFINED {
            assert_eq!((reason.as_str(), reason.code()), (*word, *code));
            assert_eq!(Reason::from(*word), *reason);
        }
        assert_eq!(Reason::from("Custom"), Reason::Other("Custom".to_owned()));
        assert_eq!(Reason::Other("Custom".to_owned()).code(), 500);
    }
}
