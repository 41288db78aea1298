//! Conditions, which are nearly the same in all kinds.

use coracle_base::Timestamp;
use serde::{Deserialize, Serialize};

use super::optional_time;

/// A condition. Each kind uses only some of the timestamps; the others are `None` and omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    pub(crate) r#type: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(crate) last_heartbeat_time: Option<Timestamp>,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(crate) last_probe_time: Option<Timestamp>,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(crate) last_update_time: Option<Timestamp>,
    #[serde(with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reason: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) message: Box<str>,
}

impl Condition {
    pub(crate) fn is_true(&self) -> bool {
        &*self.status == "True"
    }
}

/// The condition of a type.
pub(crate) fn condition<'a>(all: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    all.iter().find(|condition| *condition.r#type == *r#type)
}
