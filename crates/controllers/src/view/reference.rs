//! References between objects.

use serde::{Deserialize, Serialize};

/// A reference to an object, such as from an endpoint to its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectReference {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) kind: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) namespace: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) uid: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) api_version: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) field_path: Box<str>,
}

impl ObjectReference {
    /// A reference to a pod.
    pub(crate) fn to_pod(pod: &super::Pod) -> Self {
        Self {
            kind: "Pod".into(),
            namespace: pod.metadata.namespace().into(),
            name: pod.metadata.name().into(),
            uid: pod.metadata.uid().into(),
            ..Self::default()
        }
    }
}
