//! The bodies of requests to the admin API.

use bytes::Bytes;
use coracle_registry::LimitsChange;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::status::Refusal;

/// Creates a cluster. Omitted limits default to those of the server's configuration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateRequest {
    pub(super) id: String,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// Changes limits. Omitted limits stay unchanged.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LimitsRequest {
    pub(super) limits: Limits,
}

/// Limits in a request; `null` is unlimited.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Limits {
    #[serde(default, deserialize_with = "given")]
    max_bytes: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    max_objects: Option<Option<u64>>,
}

impl From<Limits> for LimitsChange {
    fn from(limits: Limits) -> Self {
        Self { max_bytes: limits.max_bytes, max_objects: limits.max_objects }
    }
}

/// Deserializes a field that is present, even if it is `null`.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("cannot read the request body: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(json: &str) -> LimitsChange {
        let request: LimitsRequest = parse(&Bytes::from(json.to_owned())).ok().unwrap();
        request.limits.into()
    }

    #[test]
    fn null_removes_a_limit_and_a_missing_field_keeps_it() {
        let change = limits(r#"{"limits": {"maxBytes": null}}"#);
        assert_eq!(change, LimitsChange { max_bytes: Some(None), max_objects: None });
        let change = limits(r#"{"limits": {"maxObjects": 7}}"#);
        assert_eq!(change, LimitsChange { max_bytes: None, max_objects: Some(Some(7)) });
    }

    #[test]
    fn unknown_fields_are_rejected() {
        let body = Bytes::from_static(br#"{"id": "a", "limit": {}}"#);
        assert!(parse::<CreateRequest>(&body).is_err());
        assert!(parse::<CreateRequest>(&Bytes::from_static(b"")).is_err());
    }
}
