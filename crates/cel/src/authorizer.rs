//! Authorization checks in expressions (variable `authorizer`).

use std::fmt;
use std::sync::Arc;

use crate::value::{Extension, Value};

/// The subject of an authorization check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The user of the request.
    RequestUser,
    /// A service account.
    ServiceAccount {
        /// The namespace.
        namespace: Arc<str>,
        /// The name.
        name: Arc<str>,
    },
}

/// A resource to check. Unset fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// API group.
    pub group: Arc<str>,
    /// Resource, in plural.
    pub resource: Arc<str>,
    /// Subresource, such as `status`.
    pub subresource: Arc<str>,
    /// Namespace; empty for all namespaces.
    pub namespace: Arc<str>,
    /// Name of an object.
    pub name: Arc<str>,
    /// Field selector as written; empty if there is none.
    pub field_selector: Arc<str>,
    /// Label selector as written; empty if there is none.
    pub label_selector: Arc<str>,
}

/// The target of an authorization check.
#[derive(Clone, Copy, Debug)]
pub enum Check<'a> {
    /// A non-resource path.
    Path(&'a str),
    /// A resource.
    Resource(&'a ResourceCheck),
}

/// The result of an authorization check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the action is allowed.
    pub allowed: bool,
    /// The authorizer's reason.
    pub reason: String,
    /// The error, if the authorizer failed.
    pub error: Option<String>,
}

/// An authorizer for expressions. `Sync`, because programs contain values and must be shareable.
pub trait Authorizer: Sync {
    /// Checks whether a subject may perform a verb.
    fn authorize(&self, subject: &Subject, check: Check<'_>, verb: &str) -> Decision;
}

/// An authorizer with the subject to check.
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
    /// Creates the value of the variable `authorizer`.
    pub fn authorizer(authorizer: &'d dyn Authorizer) -> Self {
        let handle = AuthorizerHandle { authorizer, subject: Subject::RequestUser };
        Self::extension(Extension::Authorizer(handle))
    }

    /// Creates the value of the variable `authorizer.requestResource`.
    pub fn request_resource(authorizer: &'d dyn Authorizer, check: ResourceCheck) -> Self {
        let handle = AuthorizerHandle { authorizer, subject: Subject::RequestUser };
        Self::extension(Extension::ResourceCheck(handle, check))
    }
}
