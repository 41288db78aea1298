//! Parts of objects that have a path of their own.

use std::borrow::Cow;

use super::Verbs;
use crate::scale::{ScalePaths, ScaleSelector};

/// A part of an object, or something done with it, that has a path of its own.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Such as `status`.
    pub name: Cow<'static, str>,
    /// What is sent there; may be of another group, such as a Scale.
    pub kind: Cow<'static, str>,
    /// The group and version of that kind, where it is not the resource's own.
    pub group_version: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// What can be done there.
    pub verbs: Verbs,
    /// Where objects have their scale, if this is it.
    pub scale: Option<ScalePaths>,
}

impl Subresource {
    /// The status of a kind.
    pub fn status(kind: impl Into<Cow<'static, str>>) -> Self {
        Self::new("status", kind, Verbs::STATUS)
    }

    /// The scale of a kind that counts what a `LabelSelector` selects.
    pub fn scale() -> Self {
        Self::scale_at(ScalePaths::usual(ScaleSelector::LabelSelector))
    }

    /// The scale of a kind whose objects have it there.
    pub fn scale_at(paths: ScalePaths) -> Self {
        let group_version = Some((Cow::Borrowed("autoscaling"), Cow::Borrowed("v1")));
        Self { group_version, scale: Some(paths), ..Self::new("scale", "Scale", Verbs::STATUS) }
    }

    /// Something else.
    pub fn new(name: &'static str, kind: impl Into<Cow<'static, str>>, verbs: Verbs) -> Self {
        Self { name: Cow::Borrowed(name), kind: kind.into(), group_version: None, verbs, scale: None }
    }
}
