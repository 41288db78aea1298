//! The bindings of a namespace, or of the whole cluster, indexed by subject.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coracle_registry::Identity;
use serde_json::Value;

use super::binding::{Binding, Subject};

/// The RoleBindings of one namespace, or the ClusterRoleBindings.
#[derive(Default)]
pub(super) struct Bindings {
    by_name: HashMap<Box<str>, Arc<Binding>>,
    /// By user name; service accounts are users, too.
    by_user: BySubject,
    by_group: BySubject,
}

/// Bindings of each subject, sorted by name.
type BySubject = HashMap<Box<str>, BTreeMap<Box<str>, Arc<Binding>>>;

impl Bindings {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Bindings that apply to a user; one may occur several times.
    pub(super) fn given_to<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Arc<Binding>> {
        let to_groups = identity.groups.iter().filter_map(|group| self.by_group.get(&**group));
        self.by_user.get(&*identity.name).into_iter().chain(to_groups).flat_map(BTreeMap::values)
    }

    /// Records a binding; None if it was deleted.
    pub(super) fn note(&mut self, name: &str, namespace: &str, object: Option<&Value>) {
        if let Some(old) = self.by_name.remove(name) {
            old.subjects.iter().for_each(|subject| self.take(subject, name));
        }
        let Some(object) = object else { return };
        let binding = Arc::new(Binding::read(name, namespace, object));
        for subject in &binding.subjects {
            let (given, subject_name) = self.given_for(subject);
            given.entry(subject_name.into()).or_default().insert(name.into(), binding.clone());
        }
        self.by_name.insert(name.into(), binding);
    }

    fn take(&mut self, subject: &Subject, name: &str) {
        let (given, subject_name) = self.given_for(subject);
        if let Some(bindings) = given.get_mut(subject_name) {
            bindings.remove(name);
            if bindings.is_empty() {
                given.remove(subject_name);
            }
        }
    }

    fn given_for<'s>(&mut self, subject: &'s Subject) -> (&mut BySubject, &'s str) {
        match subject {
            Subject::Group(name) => (&mut self.by_group, name),
            Subject::User(name) | Subject::ServiceAccount { user: name, .. } => (&mut self.by_user, name),
        }
    }
}
