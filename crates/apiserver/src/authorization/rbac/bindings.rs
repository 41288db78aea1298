//! The bindings of a namespace, or of the whole cluster, found by whom they are for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coracle_registry::Identity;
use serde_json::Value;

use super::binding::{Binding, Subject};

/// Bindings of one place.
#[derive(Default)]
pub(super) struct Bindings {
    by_name: HashMap<Box<str>, Arc<Binding>>,
    /// By the name of the user, which service accounts have too.
    by_user: Given,
    by_group: Given,
}

/// What is given to each, in the order of the bindings' names.
type Given = HashMap<Box<str>, BTreeMap<Box<str>, Arc<Binding>>>;

impl Bindings {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Those that apply to somebody; one may come several times.
    pub(super) fn given_to<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Arc<Binding>> {
        let to_groups = identity.groups.iter().filter_map(|group| self.by_group.get(&**group));
        self.by_user.get(&*identity.name).into_iter().chain(to_groups).flat_map(BTreeMap::values)
    }

    /// Takes note of a binding, or of none where it is gone.
    pub(super) fn note(&mut self, name: &str, namespace: &str, object: Option<&Value>) {
        if let Some(old) = self.by_name.remove(name) {
            old.subjects.iter().for_each(|subject| self.take(subject, name));
        }
        let Some(object) = object else { return };
        let binding = Arc::new(Binding::read(name, namespace, object));
        for subject in &binding.subjects {
            let (given, who) = self.given_for(subject);
            given.entry(who.into()).or_default().insert(name.into(), binding.clone());
        }
        self.by_name.insert(name.into(), binding);
    }

    fn take(&mut self, subject: &Subject, name: &str) {
        let (given, who) = self.given_for(subject);
        if let Some(bindings) = given.get_mut(who) {
            bindings.remove(name);
            if bindings.is_empty() {
                given.remove(who);
            }
        }
    }

    fn given_for<'s>(&mut self, subject: &'s Subject) -> (&mut Given, &'s str) {
        match subject {
            Subject::Group(name) => (&mut self.by_group, name),
            Subject::User(name) | Subject::ServiceAccount { user: name, .. } => (&mut self.by_user, name),
        }
    }
}
