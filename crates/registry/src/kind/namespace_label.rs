//! Fields that only objects in labelled namespaces may set.

/// A label that the namespace of an object must have, because of a field of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceLabel {
    /// The label.
    pub key: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The field that needs it.
    pub field: String,
    /// The message for a namespace without it.
    pub detail: String,
}
