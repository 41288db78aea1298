//! The question: what somebody wants to do.

use coracle_meta::selector::{fields, labels};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Such as `create`; of a path, the method in lower case.
    pub verb: &'a str,
    /// With what.
    pub target: Target<'a>,
}

/// With what somebody wants to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// With objects, or parts of them.
    Resource(ResourceTarget<'a>),
    /// With what is at a path and is no object.
    Path(&'a str),
}

/// Objects, or parts of them. Whatever is empty is all there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The collection, such as `pods`.
    pub resource: &'a str,
    /// The part, such as `status`.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The object.
    pub name: &'a str,
    /// Which objects, as far as their fields say it.
    pub field_selector: &'a [fields::Requirement],
    /// Which objects, as far as their labels say it.
    pub label_selector: &'a [labels::Requirement],
}
