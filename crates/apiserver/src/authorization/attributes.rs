//! The attributes of a request that authorizers decide on.

use coracle_meta::selector::{fields, labels};

/// An operation to authorize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Verb such as `create`; for a path, the HTTP method in lower case.
    pub verb: &'a str,
    /// Object or path that the operation applies to.
    pub target: Target<'a>,
}

/// The object or path that an operation applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Objects, or their subresources.
    Resource(ResourceTarget<'a>),
    /// A non-resource path.
    Path(&'a str),
}

/// Objects or their subresources. An empty field stands for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural name of the resource, such as `pods`.
    pub resource: &'a str,
    /// Name of the subresource, such as `status`.
    pub subresource: &'a str,
    /// Namespace of the objects.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Requirements of the request's field selector.
    pub field_selector: &'a [fields::Requirement],
    /// Requirements of the request's label selector.
    pub label_selector: &'a [labels::Requirement],
}
