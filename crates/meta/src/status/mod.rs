//! The `Status` object: the answer to a request that was refused, or that left nothing
//! else to show.
//!
//! This is data and its texts. Which error becomes which status is decided elsewhere.

mod build;
mod generic;
mod reason;
mod request;

use serde::{Deserialize, Serialize};

pub use reason::Reason;
pub use request::{Denied, MODIFIED_MESSAGE, Precondition};

/// `Status` of meta/v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    #[serde(default)]
    pub kind: String,
    /// Always `v1`.
    #[serde(default)]
    pub api_version: String,
    /// Of a list that could not be continued, where to continue.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// More for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// `ListMeta` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The revision at which the list was read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Where the next page begins.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many items come after this page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// What a status is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Of the object; of a server timeout, the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource; for an invalid object its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// What is wrong in detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again; zero when nothing is said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// For programs: the kind of a field error, or one of the constants of this type.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// Another manager owns the field that an apply would change.
    pub const FIELD_MANAGER_CONFLICT: &'static str = "FieldManagerConflict";
    /// The requested revision is yet to come.
    pub const RESOURCE_VERSION_TOO_LARGE: &'static str = "ResourceVersionTooLarge";
    /// A server behind this one answered strangely.
    pub const UNEXPECTED_SERVER_RESPONSE: &'static str = "UnexpectedServerResponse";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &'static str = "NamespaceTerminating";
    /// A disruption budget does not allow the eviction.
    pub const DISRUPTION_BUDGET: &'static str = "DisruptionBudget";

    /// From its parts; `field` may be empty.
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }
}

impl Status {
    /// Value of [`Status::status`] when all went well.
    pub const SUCCESS: &'static str = "Success";
    /// Value of [`Status::status`] otherwise.
    pub const FAILURE: &'static str = "Failure";

    /// Whether it reports a failure.
    pub fn is_failure(&self) -> bool {
        self.status != Self::SUCCESS
    }

    /// Whether it has a cause with this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
    }

    /// After how many seconds the client should try again, if it is told to.
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

    /// Asks the client to try again after a while.
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
