//! Questions of authorization that expressions ask.

use std::fmt;
use std::sync::Arc;

use crate::value::{Extension, Value};

/// On whose behalf is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Who made the request.
    RequestUser,
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
}

/// A resource that is asked about. What is not said is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// Of the API.
    pub group: Arc<str>,
    /// In the plural.
    pub resource: Arc<str>,
    /// Such as `status`.
    pub subresource: Arc<str>,
    /// Empty for all of them.
    pub namespace: Arc<str>,
    /// Of one object.
    pub name: Arc<str>,
    /// As it is written; empty for none.
    pub field_selector: Arc<str>,
    /// As it is written; empty for none.
    pub label_selector: Arc<str>,
}

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Check<'a> {
    /// A path that is no resource.
    Path(&'a str),
    /// A resource.
    Resource(&'a ResourceCheck),
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why, or why not.
    pub reason: String,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// Who answers. Programs hold values, so that they could not be shared if this could not.
pub trait Authorizer: Sync {
    /// Whether a subject may do something.
    fn authorize(&self, subject: &Subject, check: Check<'_>, verb: &str) -> Decision;
}

/// An authorizer and the subject it is asked about.
#[derive(Clone)]
pub(crate) struct AuthorizerHandle<'d> {
    pub(crate) authorizer: &'d dyn Authorizer,
    pub(crate) subject: Subject,
}

impl fmt::Debug for AuthorizerHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizerHandle").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl<'d> Value<'d> {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: &'d dyn Authorizer) -> Self {
        let handle = AuthorizerHandle { authorizer, subject: Subject::RequestUser };
        Self::extension(Extension::Authorizer(handle))
    }

    /// The variable `authorizer.requestResource`.
    pub fn request_resource(authorizer: &'d dyn Authorizer, check: ResourceCheck) -> Self {
        let handle = AuthorizerHandle { authorizer, subject: Subject::RequestUser };
        Self::extension(Extension::ResourceCheck(handle, check))
    }
}
