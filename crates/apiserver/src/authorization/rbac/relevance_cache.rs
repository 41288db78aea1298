//! A cache of the bindings with rules for a resource and verb, for users with many bindings.
//!
//! A user with hundreds of bindings mostly requests few resources, again and again. Bindings whose roles are about
//! other resources need not be evaluated each time. Every change of a role or a binding clears the cache, so it is
//! never stale.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_registry::Identity;

use super::super::ResourceTarget;
use super::binding::Binding;
use super::rule::PolicyRule;

/// Number of cached entries; when it is reached, the cache is cleared.
const MAX_ENTRIES: usize = 1024;

/// Longer lists are not cached: they would take memory and save little.
const MAX_BINDINGS: usize = 64;

/// The cached bindings.
#[derive(Default)]
pub(super) struct RelevanceCache {
    hasher: RandomState,
    entries: Mutex<HashMap<u64, (CacheKey, Arc<RelevantBindings>)>>,
}

/// Bindings with a rule for the request, and errors of other bindings.
#[derive(Default)]
pub(super) struct RelevantBindings {
    pub(super) bindings: Vec<(Arc<Binding>, Arc<[PolicyRule]>)>,
    pub(super) errors: Vec<String>,
}

/// The key of an entry: a request of a user without the name of the object.
#[derive(PartialEq, Eq)]
struct CacheKey {
    user: String,
    groups: Vec<String>,
    verb: String,
    namespace: String,
    group: String,
    resource: String,
    subresource: String,
}

impl RelevanceCache {
    /// Returns the relevant bindings of a request; calls `make` if they are not cached.
    pub(super) fn get_or_insert(
        &self,
        identity: &Identity,
        verb: &str,
        target: &ResourceTarget<'_>,
        make: impl FnOnce() -> RelevantBindings,
    ) -> Arc<RelevantBindings> {
        let ResourceTarget { namespace, group, resource, subresource, .. } = *target;
        let who = (&identity.name, &identity.groups);
        let hash = self.hasher.hash_one((who, verb, namespace, group, resource, subresource));
        if let Some((key, relevant)) = self.lock().get(&hash)
            && key.matches(identity, verb, target)
        {
            return relevant.clone();
        }
        let relevant = Arc::new(make());
        if relevant.bindings.len() + relevant.errors.len() <= MAX_BINDINGS {
            let mut entries = self.lock();
            if entries.len() >= MAX_ENTRIES {
                entries.clear();
            }
            entries.insert(hash, (CacheKey::new(identity, verb, target), relevant.clone()));
        }
        relevant
    }

    /// Clears the cache after a change.
    pub(super) fn clear(&mut self) {
        self.entries.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (CacheKey, Arc<RelevantBindings>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheKey {
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

    /// Returns true if the key is equal, and not only its hash.
    fn matches(&self, identity: &Identity, verb: &str, target: &ResourceTarget<'_>) -> bool {
        self.user == identity.name
            && self.groups == identity.groups
            && self.verb == verb
            && self.namespace == target.namespace
            && self.group == target.group
            && self.resource == target.resource
            && self.subresource == target.subresource
    }
}

impl RelevantBindings {
    /// The bindings and errors, in the form that [`super::index`] evaluates.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<(&Binding, &[PolicyRule]), String>> {
        let bindings = self.bindings.iter().map(|(binding, rules)| Ok((&**binding, &**rules)));
        bindings.chain(self.errors.iter().cloned().map(Err))
    }
}
