//! Owner references.

use serde_json::{Map, Value};

use crate::field::json_text;
use crate::gvk::GroupVersionKind;

/// An `OwnerReference` of meta/v1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's `apiVersion`.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The name of the owner, which is in the same namespace or cluster-scoped.
    pub name: &'a str,
    /// The owner's uid; an object with the same name and another uid is not the owner.
    pub uid: &'a str,
    /// True if the owner is the managing controller.
    pub controller: Option<bool>,
    /// True if foreground deletion of the owner waits for the object.
    pub block_owner_deletion: Option<bool>,
}

impl<'a> OwnerReference<'a> {
    /// Reads an item of `ownerReferences`.
    pub fn of(reference: &'a Value) -> Self {
        let text = |name| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name| reference.get(name).and_then(Value::as_bool);
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: flag("controller"),
            block_owner_deletion: flag("blockOwnerDeletion"),
        }
    }

    /// Creates a reference to the managing controller.
    pub fn controller(api_version: &'a str, kind: &'a str, name: &'a str, uid: &'a str) -> Self {
        Self { api_version, kind, name, uid, controller: Some(true), block_owner_deletion: Some(true) }
    }

    /// Returns the owner's group, version and kind.
    pub fn group_version_kind(self) -> GroupVersionKind {
        GroupVersionKind::from_api_version(self.api_version, self.kind)
    }

    fn fields(self) -> impl Iterator<Item = (&'static str, Value)> {
        let texts =
            [("apiVersion", self.api_version), ("kind", self.kind), ("name", self.name), ("uid", self.uid)];
        let flags = [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)];
        let texts = texts.map(|(name, text)| (name, Value::from(text)));
        texts.into_iter().chain(flags.into_iter().filter_map(|(name, flag)| Some((name, flag?.into()))))
    }

    /// Converts the reference to an item of `ownerReferences`.
    pub fn to_value(self) -> Value {
        Value::Object(self.fields().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
    }

    /// Formats the reference for messages: JSON, with fields in kube-apiserver's order.
    pub(super) fn json(self) -> String {
        let fields: Vec<String> =
            self.fields().map(|(name, value)| format!("\"{name}\":{}", json_text(&value))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_reference_round_trips() {
        let owner = OwnerReference::controller("apps/v1", "ReplicaSet", "x", "1");
        assert_eq!(OwnerReference::of(&owner.to_value()), owner);
        assert_eq!(
            owner.json(),
            r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"x","uid":"1","controller":true,"blockOwnerDeletion":true}"#
        );
        assert_eq!(owner.group_version_kind(), GroupVersionKind::from_static("apps", "v1", "ReplicaSet"));
    }
}
