//! The `Status` object: the response to failed requests and to successful ones without an object.
//!
//! This module contains the types and messages only; `apiserver::status` maps errors to statuses.

mod build;
mod generic;
mod reason;
mod request;

use serde::{Deserialize, Serialize};

pub use reason::Reason;
pub use request::{Denied, MODIFIED_MESSAGE, Precondition};

/// A `Status` of meta/v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    #[serde(default)]
    pub kind: String,
    /// Always `v1`.
    #[serde(default)]
    pub api_version: String,
    /// For an expired list, the token to continue it.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// Machine-readable details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// A `ListMeta` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The revision of the list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token for the next page.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of items after this page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// `StatusDetails` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object; for a server timeout, the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource of the object; for an invalid object its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes of the failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which the client should retry; zero if unset.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// A cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Machine-readable: the reason of a field error, or one of the constants of this type.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// Another manager owns the field that an apply would change.
    pub const FIELD_MANAGER_CONFLICT: &'static str = "FieldManagerConflict";
    /// The requested revision is in the future.
    pub const RESOURCE_VERSION_TOO_LARGE: &'static str = "ResourceVersionTooLarge";
    /// A backend server returned an unexpected response.
    pub const UNEXPECTED_SERVER_RESPONSE: &'static str = "UnexpectedServerResponse";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &'static str = "NamespaceTerminating";
    /// A PodDisruptionBudget does not allow the eviction.
    pub const DISRUPTION_BUDGET: &'static str = "DisruptionBudget";

    /// Creates a cause; `field` may be empty.
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }
}

impl Status {
    /// Value of [`Status::status`] for successful requests.
    pub const SUCCESS: &'static str = "Success";
    /// Value of [`Status::status`] for failed requests.
    pub const FAILURE: &'static str = "Failure";

    /// Returns true if the status is a failure.
    pub fn is_failure(&self) -> bool {
        self.status != Self::SUCCESS
    }

    /// Returns true if a cause has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
    }

    /// Returns the seconds after which the client should retry, if set.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        let details = self.details.as_ref()?;
        (details.retry_after_seconds > 0).then_some(details.retry_after_seconds)
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Sets the seconds after which the client should retry.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
