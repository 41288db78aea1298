//! Why a request was refused, in one word for programs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a request was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is said.
    #[default]
    Unknown,
    /// The client has to say who it is.
    Unauthorized,
    /// The client may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// There is such a thing already.
    AlreadyExists,
    /// The request and the present state do not fit.
    Conflict,
    /// It is no longer there.
    Gone,
    /// The object is not well formed.
    Invalid,
    /// The server could not finish in time; nothing happened.
    ServerTimeout,
    /// What is stored cannot be read.
    StoreReadError,
    /// The server could not finish in time; it may still do so.
    Timeout,
    /// The client should slow down.
    TooManyRequests,
    /// The request itself is malformed.
    BadRequest,
    /// This cannot be done to this kind of things.
    MethodNotAllowed,
    /// None of the forms that the client accepts can be given.
    NotAcceptable,
    /// The request's body is too large.
    RequestEntityTooLarge,
    /// The request's body has an unknown form.
    UnsupportedMediaType,
    /// The server failed.
    InternalError,
    /// The revision is no longer kept.
    Expired,
    /// The server cannot serve now.
    ServiceUnavailable,
    /// What an admission webhook chose.
    Other(String),
}

/// All reasons with their word and usual code.
const KNOWN: &[(Reason, &str, u16)] = &[
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
    /// The word for it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(word) => word,
            known => KNOWN.iter().find(|(reason, ..)| reason == known).map_or("", |(_, word, _)| word),
        }
    }

    /// The HTTP status code that goes with it.
    pub fn code(&self) -> u16 {
        KNOWN.iter().find(|(reason, ..)| reason == self).map_or(500, |(.., code)| *code)
    }

    /// Whether nothing is said.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl From<&str> for Reason {
    fn from(word: &str) -> Self {
        let known = KNOWN.iter().find(|(_, known, _)| *known == word);
        known.map_or_else(|| Self::Other(word.to_owned()), |(reason, ..)| reason.clone())
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
    fn every_reason_is_read_as_it_is_written() {
        for (reason, word, code) in KNOWN {
            assert_eq!((reason.as_str(), reason.code()), (*word, *code));
            assert_eq!(Reason::from(*word), *reason);
        }
        assert_eq!(Reason::from("Custom"), Reason::Other("Custom".to_owned()));
        assert_eq!(Reason::Other("Custom".to_owned()).code(), 500);
    }
}
