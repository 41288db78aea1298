//! Subresources.

use std::borrow::Cow;

use super::Verbs;
use crate::scale::{ScalePaths, ScaleSelector};

/// A subresource: a part of an object or an operation on it with a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Name, such as `status`.
    pub name: Cow<'static, str>,
    /// Kind of the body; may be of another group, such as Scale.
    pub kind: Cow<'static, str>,
    /// Group and version of that kind, if not those of the resource.
    pub group_version: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// Verbs of the subresource.
    pub verbs: Verbs,
    /// Paths of the replica counts and the selector within the object, if this is the scale subresource.
    pub scale: Option<ScalePaths>,
}

impl Subresource {
    /// The status subresource.
    pub fn status(kind: impl Into<Cow<'static, str>>) -> Self {
        Self::new("status", kind, Verbs::STATUS)
    }

    /// The scale subresource of a kind whose selector is a `LabelSelector`.
    pub fn scale() -> Self {
        Self::scale_at(ScalePaths::usual(ScaleSelector::LabelSelector))
    }

    /// The scale subresource with these paths.
    pub fn scale_at(paths: ScalePaths) -> Self {
        let group_version = Some((Cow::Borrowed("autoscaling"), Cow::Borrowed("v1")));
        Self { group_version, scale: Some(paths), ..Self::new("scale", "Scale", Verbs::STATUS) }
    }

    /// Any other subresource.
    pub fn new(name: &'static str, kind: impl Into<Cow<'static, str>>, verbs: Verbs) -> Self {
        Self { name: Cow::Borrowed(name), kind: kind.into(), group_version: None, verbs, scale: None }
    }
}
