//! A RoleBinding or ClusterRoleBinding: its subjects and its role.

use coracle_meta::field::quoted;
use coracle_registry::{Identity, view};
use serde_json::Value;

/// The prefix of user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    name: Box<str>,
    /// Empty for a ClusterRoleBinding.
    pub(super) namespace: Box<str>,
    pub(super) role: RoleRef,
    pub(super) subjects: Vec<Subject>,
}

/// The `roleRef` of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleRef {
    pub(crate) api_group: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
}

impl RoleRef {
    /// Reads the `roleRef` of a binding.
    pub(crate) fn read(binding: &Value) -> Self {
        let text = |field| view::text(binding, &["roleRef", field]).into();
        Self { api_group: text("apiGroup"), kind: text("kind"), name: text("name") }
    }
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(Box<str>),
    Group(Box<str>),
    /// The user name of the account, and its name in reasons.
    ServiceAccount {
        user: Box<str>,
        display_name: Box<str>,
    },
}

impl Binding {
    pub(super) fn read(name: &str, namespace: &str, binding: &Value) -> Self {
        let subjects = view::items(binding, &["subjects"]).iter();
        Self {
            name: name.into(),
            namespace: namespace.into(),
            role: RoleRef::read(binding),
            subjects: subjects.filter_map(|subject| Subject::read(subject, namespace)).collect(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The subject as it appears in kube-apiserver's reasons, which depends on why it matches the user.
    pub(super) fn describe(&self, identity: &Identity) -> String {
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let subject = self.subjects.iter().find(|subject| subject.is(identity));
        let (subject_kind, subject) = subject.map(Subject::display_name).unwrap_or_default();
        let (name, role, subject) = (quoted(&name), quoted(&self.role.name), quoted(subject));
        format!("{kind} {name} of {} {role} to {subject_kind} {subject}", self.role.kind)
    }
}

impl Subject {
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |field| view::text(subject, &[field]);
        let name = text("name");
        match text("kind") {
            "User" => Some(Self::User(name.into())),
            "Group" => Some(Self::Group(name.into())),
            "ServiceAccount" => {
                // An account without namespace belongs to the namespace of the binding.
                let namespace = Some(text("namespace")).filter(|own| !own.is_empty());
                let namespace = namespace.unwrap_or(binding_namespace);
                let user = format!("{SERVICE_ACCOUNT}{namespace}:{name}").into();
                let display_name = format!("{name}/{namespace}").into();
                (!namespace.is_empty()).then_some(Self::ServiceAccount { user, display_name })
            }
            _ => None,
        }
    }

    fn is(&self, identity: &Identity) -> bool {
        match self {
            Self::User(name) | Self::ServiceAccount { user: name, .. } => **name == *identity.name,
            Self::Group(name) => identity.groups.iter().any(|group| **group == **name),
        }
    }

    fn display_name(&self) -> (&'static str, &str) {
        match self {
            Self::User(name) => ("User", name),
            Self::Group(name) => ("Group", name),
            Self::ServiceAccount { display_name, .. } => ("ServiceAccount", display_name),
        }
    }
}
