//! View of a CustomResourceDefinition, without its schemas.

use coracle_base::Timestamp;
use coracle_runtime::informer::{Metadata, View};
use k8s_openapi::jiff;
use serde::{Deserialize, Deserializer, Serialize};

/// Annotation that approves a definition in a group of the Kubernetes community.
const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Definition {
    pub(super) metadata: DefinitionMetadata,
    pub(crate) spec: Spec,
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DefinitionMetadata {
    #[serde(flatten)]
    pub(super) plain: Metadata,
    pub(super) finalizers: Vec<String>,
    annotations: Annotations,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "api-approved.kubernetes.io")]
    approval: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(super) versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
}

/// Names of the defined kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(super) singular: Option<String>,
    pub(super) short_names: Option<Vec<String>>,
    pub(super) kind: String,
    pub(super) list_kind: Option<String>,
    pub(super) categories: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(deserialize_with = "null_is_none")]
    pub(super) conditions: Vec<Condition>,
    pub(super) accepted_names: Names,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

/// A condition to set.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewCondition<'a> {
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl View for Definition {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Definition {
    pub(super) fn name(&self) -> &str {
        &self.metadata.plain.name
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.metadata.plain.deletion_timestamp.is_some()
    }

    /// The approval annotation; empty if missing.
    pub(super) fn approval(&self) -> &str {
        self.metadata.annotations.approval.as_deref().unwrap_or_default()
    }
}

impl Status {
    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition.kind == kind)
    }

    /// Sets a condition, and its transition time if its status changes.
    pub(super) fn set_condition(&mut self, new_condition: NewCondition<'_>, now: Timestamp) {
        let mut new = Condition {
            kind: new_condition.kind.to_owned(),
            status: if new_condition.holds { "True" } else { "False" }.to_owned(),
            last_transition_time: time(now),
            reason: new_condition.reason.to_owned(),
            message: new_condition.message.to_owned(),
        };
        match self.conditions.iter_mut().find(|known| known.kind == new.kind) {
            None => self.conditions.push(new),
            Some(known) => {
                if known.status == new.status && known.last_transition_time.is_some() {
                    new.last_transition_time = known.last_transition_time.take();
                }
                *known = new;
            }
        }
    }
}

/// Name of the approval annotation, for messages.
pub(super) fn approval_annotation() -> &'static str {
    APPROVAL_ANNOTATION
}

/// With a precision of one second. `None` only for times outside the calendar.
fn time(now: Timestamp) -> Option<String> {
    let seconds = i64::try_from(now.as_millis() / 1000).ok()?;
    jiff::Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}

fn null_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    Option::<Vec<Condition>>::deserialize(deserializer).map(Option::unwrap_or_default)
}
