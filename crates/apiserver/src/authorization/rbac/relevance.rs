//! Which bindings have something to say of a kind of question, remembered for those who have many.
//!
//! Somebody with hundreds of bindings mostly asks for few kinds of things, again and again. Bindings whose
//! roles are about other things need not be looked at each time. What is remembered is forgotten with every
//! change of a role or a binding, so it is never out of date.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_registry::Identity;

use super::super::ResourceTarget;
use super::binding::Binding;
use super::rule::PolicyRule;

/// How many kinds of questions are remembered; then all are forgotten.
const MAX_QUESTIONS: usize = 1024;

/// Longer lists are made anew each time: remembering them would take memory and save little.
const MAX_BINDINGS: usize = 64;

/// What is remembered.
#[derive(Default)]
pub(super) struct Relevance {
    hasher: RandomState,
    known: Mutex<HashMap<u64, (Asked, Arc<Relevant>)>>,
}

/// The bindings that have something to say, and what is wrong with others.
#[derive(Default)]
pub(super) struct Relevant {
    pub(super) bindings: Vec<(Arc<Binding>, Arc<[PolicyRule]>)>,
    pub(super) errors: Vec<String>,
}

/// Who asks for what, whichever object it is.
#[derive(PartialEq, Eq)]
struct Asked {
    user: String,
    groups: Vec<String>,
    verb: String,
    namespace: String,
    group: String,
    resource: String,
    subresource: String,
}

impl Relevance {
    /// What is relevant to a question, made if it is not known.
    pub(super) fn of(
        &self,
        identity: &Identity,
        verb: &str,
        target: &ResourceTarget<'_>,
        make: impl FnOnce() -> Relevant,
    ) -> Arc<Relevant> {
        let ResourceTarget { namespace, group, resource, subresource, .. } = *target;
        let who = (&identity.name, &identity.groups);
        let hash = self.hasher.hash_one((who, verb, namespace, group, resource, subresource));
        if let Some((asked, relevant)) = self.lock().get(&hash)
            && asked.is(identity, verb, target)
        {
            return relevant.clone();
        }
        let relevant = Arc::new(make());
        if relevant.bindings.len() + relevant.errors.len() <= MAX_BINDINGS {
            let mut known = self.lock();
            if known.len() >= MAX_QUESTIONS {
                known.clear();
            }
            known.insert(hash, (Asked::new(identity, verb, target), relevant.clone()));
        }
        relevant
    }

    /// Something has changed.
    pub(super) fn forget(&mut self) {
        self.known.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Asked, Arc<Relevant>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    fn new(identity: &Identity, verb: &str, target: &ResourceTarget<'_>) -> Self {
        Self {
            user: identity.name.clone(),
            groups: identity.groups.clone(),
            verb: verb.to_owned(),
            namespace: target.namespace.to_owned(),
            group: target.group.to_owned(),
            resource: target.resource.to_owned(),
            subresource: target.subresource.to_owned(),
        }
    }

    /// Whether it is the same, and not only of the same hash.
    fn is(&self, identity: &Identity, verb: &str, target: &ResourceTarget<'_>) -> bool {
        self.user == identity.name
            && self.groups == identity.groups
            && self.verb == verb
            && self.namespace == target.namespace
            && self.group == target.group
            && self.resource == target.resource
            && self.subresource == target.subresource
    }
}

impl Relevant {
    /// What is to be looked at, as [`super::index`] looks at it.
    pub(super) fn given(&self) -> impl Iterator<Item = Result<(&Binding, &[PolicyRule]), String>> {
        let bindings = self.bindings.iter().map(|(binding, rules)| Ok((&**binding, &**rules)));
        bindings.chain(self.errors.iter().cloned().map(Err))
    }
}
