//! The versions of a kind, and conversion between them.
//!
//! The field paths of a managedFields entry refer to the version of its write. To determine whether
//! these fields change, the object is converted to that version.

use std::borrow::Cow;

use serde_json::Value;

use super::typed::Type;
use crate::schema::{NodeId, Schema};

/// The versions of a kind.
pub trait Versions {
    /// Returns the type of objects at a version; `None` if the version has been removed.
    fn object_type(&self, api_version: &str) -> Option<Type<'_>>;

    /// Converts an object from one version to another, both of which exist.
    ///
    /// # Errors
    /// If the object cannot be converted.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConversionError>;
}

/// A failed conversion between versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to convert object from {from} to {to}: {reason}")]
pub struct ConversionError {
    /// The version of the object.
    pub from: String,
    /// The requested version.
    pub to: String,
    /// The reason.
    pub reason: String,
}

/// A kind with a single version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'s> {
    /// The schema.
    pub schema: &'s Schema,
    /// The type of the object in the schema.
    pub node: NodeId,
    /// The version.
    pub api_version: &'s str,
}

impl Versions for OneVersion<'_> {
    fn object_type(&self, api_version: &str) -> Option<Type<'_>> {
        (api_version == self.api_version).then(|| Type::new(self.schema, self.node))
    }

    fn convert(&self, _object: &Value, from: &str, to: &str) -> Result<Value, ConversionError> {
        Err(ConversionError {
            from: from.to_owned(),
            to: to.to_owned(),
            reason: "no such version".to_owned(),
        })
    }
}

/// An object at one of its versions.
#[derive(Clone, Debug)]
pub(super) struct Versioned<'v> {
    pub(super) object: Cow<'v, Value>,
    pub(super) api_version: Cow<'v, str>,
}

impl<'v> Versioned<'v> {
    pub(super) fn borrowed(object: &'v Value, api_version: &'v str) -> Self {
        Self { object: Cow::Borrowed(object), api_version: Cow::Borrowed(api_version) }
    }

    pub(super) fn with_object(&self, object: Value) -> Self {
        Self { object: Cow::Owned(object), api_version: self.api_version.clone() }
    }

    /// Converts the object to another version; `None` if that version has been removed.
    pub(super) fn at(&self, versions: &dyn Versions, to: &str) -> Result<Option<Self>, ConversionError> {
        if *self.api_version == *to {
            return Ok(Some(self.clone()));
        }
        if versions.object_type(to).is_none() {
            return Ok(None);
        }
        let object = versions.convert(&self.object, &self.api_version, to)?;
        Ok(Some(Self { object: Cow::Owned(object), api_version: Cow::Owned(to.to_owned()) }))
    }
}
