//! Whether the namespace of an object has the label that a field of the object needs.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::Write;
use crate::cluster::Cluster;
use crate::error::Result;
use crate::kinds::core::namespace::Namespace;

impl Cluster {
    /// The error of a write whose namespace lacks the label that the kind needs for it. The namespace is read only
    /// for objects that need one.
    pub(super) async fn namespace_label_errors(
        &self,
        write: &Write<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<ErrorList> {
        let mut errors = ErrorList::new();
        let Some(needed) = write.kind.needed_namespace_label(new, old, write.subresource) else {
            return Ok(errors);
        };
        let labels = self.find_labels(&Namespace, "", write.namespace).await?;
        let is_labelled = labels
            .iter()
            .flatten()
            .any(|(key, value)| (key.as_str(), value.as_str()) == (needed.key, needed.value));
        if !is_labelled {
            errors.push(FieldError::forbidden(&Path::root(&needed.field), needed.detail));
        }
        Ok(errors)
    }
}
