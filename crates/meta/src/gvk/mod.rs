//! Identifiers of API types: group, version, kind and resource, and their combinations.
//!
//! They are formatted as in kube-apiserver, because these strings occur in error messages
//! (`deployments.apps`), in `apiVersion` and in owner references.

mod version;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

pub use version::compare_versions;

/// A string that is usually a compile-time constant.
type Name = Cow<'static, str>;

/// An API group and version, as in `apiVersion`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: Name,
    /// Such as `v1`.
    pub version: Name,
}

/// A group and kind, without version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: Name,
    /// Such as `Deployment`.
    pub kind: Name,
}

/// A group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: Name,
    /// Such as `v1`.
    pub version: Name,
    /// Such as `Deployment`.
    pub kind: Name,
}

/// A group and resource, without version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: Name,
    /// The plural in lower case, such as `deployments`.
    pub resource: Name,
}

/// A group, version and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: Name,
    /// Such as `v1`.
    pub version: Name,
    /// The plural in lower case, such as `deployments`.
    pub resource: Name,
}

/// An `apiVersion` with more than one slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(pub String);

impl GroupVersion {
    /// Creates a group and version.
    pub fn new(group: impl Into<Name>, version: impl Into<Name>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Creates a group and version in a constant.
    pub const fn from_static(group: &'static str, version: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version) }
    }

    /// Adds a kind.
    pub fn with_kind(&self, kind: impl Into<Name>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// Adds a resource.
    pub fn with_resource(&self, resource: impl Into<Name>) -> GroupVersionResource {
        let (group, version) = (self.group.clone(), self.version.clone());
        GroupVersionResource { group, version, resource: resource.into() }
    }

    /// Returns true if group and version are empty.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.version.is_empty()
    }
}

impl GroupKind {
    /// Creates a group and kind.
    pub fn new(group: impl Into<Name>, kind: impl Into<Name>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// Creates a group and kind in a constant.
    pub const fn from_static(group: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), kind: Cow::Borrowed(kind) }
    }

    /// Adds a version.
    pub fn with_version(&self, version: impl Into<Name>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: version.into(), kind: self.kind.clone() }
    }
}

impl GroupVersionKind {
    /// Creates a group, version and kind.
    pub fn new(group: impl Into<Name>, version: impl Into<Name>, kind: impl Into<Name>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Creates a group, version and kind in a constant.
    pub const fn from_static(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) }
    }

    /// Creates it from `apiVersion` and `kind` of an object or reference. A malformed `apiVersion`
    /// yields an empty group and version, as in apimachinery.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let group_version: GroupVersion = api_version.parse().unwrap_or_default();
        group_version.with_kind(kind.to_owned())
    }

    /// Returns the group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl GroupResource {
    /// Creates a group and resource.
    pub fn new(group: impl Into<Name>, resource: impl Into<Name>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Creates a group and resource in a constant.
    pub const fn from_static(group: &'static str, resource: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), resource: Cow::Borrowed(resource) }
    }

    /// Parses `resource.group`, the format of its `Display`.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group.to_owned(), resource.to_owned())
    }

    /// Adds a version.
    pub fn with_version(&self, version: impl Into<Name>) -> GroupVersionResource {
        let (group, resource) = (self.group.clone(), self.resource.clone());
        GroupVersionResource { group, version: version.into(), resource }
    }

    /// Returns true if group and resource are empty.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl GroupVersionResource {
    /// Creates a group, version and resource.
    pub fn new(group: impl Into<Name>, version: impl Into<Name>, resource: impl Into<Name>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Creates a group, version and resource in a constant.
    pub const fn from_static(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            resource: Cow::Borrowed(resource),
        }
    }

    /// Returns the group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    /// Returns the group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    /// Parses an `apiVersion`. An empty string or a single slash yields the empty group and
    /// version.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (group, version) = match text.split_once('/') {
            None => ("", text),
            Some((_, version)) if version.contains('/') => {
                return Err(ParseGroupVersionError(text.to_owned()));
            }
            Some(parts) => parts,
        };
        Ok(Self::new(group.to_owned(), version.to_owned()))
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
}

/// Splits a valid `apiVersion` into group and version; the core group is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_matches_kube_apiserver() {
        assert_eq!(GroupResource::from_static("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupResource::from_static("", "pods").to_string(), "pods");
        assert_eq!(GroupKind::from_static("apps", "Deployment").to_string(), "Deployment.apps");
        let kind = GroupVersionKind::from_static("apps", "v1", "Deployment");
        assert_eq!(kind.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(GroupVersionKind::from_static("", "v1", "Pod").to_string(), "/v1, Kind=Pod");
        let resource = GroupVersionResource::from_static("", "v1", "pods");
        assert_eq!(resource.to_string(), "/v1, Resource=pods");
    }

    #[test]
    fn api_version_with_two_slashes_is_rejected() {
        for (text, group, version) in
            [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", ""), ("/", "", ""), ("/v1", "", "v1")]
        {
            let parsed: GroupVersion = text.parse().unwrap();
            assert_eq!(parsed, GroupVersion::from_static(group, version), "{text:?}");
        }
        let error = "a/b/c".parse::<GroupVersion>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected GroupVersion string: a/b/c");
        assert_eq!(GroupVersionKind::from_api_version("a/b/c", "K"), GroupVersionKind::new("", "", "K"));
    }

    #[test]
    fn group_resource_display_round_trips() {
        let resource = GroupResource::parse("ingresses.networking.k8s.io");
        assert_eq!(resource, GroupResource::from_static("networking.k8s.io", "ingresses"));
        assert_eq!(GroupResource::parse("pods"), GroupResource::from_static("", "pods"));
    }
}
