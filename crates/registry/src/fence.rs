//! Writes that are bound to a lease: a component that several processes could run writes only while it holds it.
//!
//! A process that was stopped, or was cut off from the store, may go on with requests that it began before another
//! process took the lease. The lease is a condition of the transactions of those requests, so they change nothing.

use std::sync::Arc;

use coracle_store::{Entry, Guard};
use serde_json::Value;

use crate::cluster::Registry;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::kinds::coordination::lease::Lease;
use crate::lifecycle::tree;
use crate::view;

/// One term of one holder of a lease.
#[derive(Clone, Debug)]
pub struct HeldLease<'a> {
    /// The cluster of the lease, which need not be the one that is written to.
    pub cluster: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid: a lease that is deleted and created again begins anew.
    pub uid: &'a str,
    /// The holder.
    pub holder: &'a str,
    /// How often it had changed hands at the beginning of the term.
    pub transitions: u64,
}

/// Binds writes to a term of a lease. Cheap to clone; a request carries it among its extensions.
#[derive(Clone, Debug)]
pub struct Fence {
    guard: Arc<Guard>,
}

impl Registry {
    /// Binds writes to a term of a lease.
    ///
    /// # Errors
    /// If there can be no such cluster.
    pub fn fence(&self, lease: &HeldLease<'_>) -> Result<Fence> {
        let key = keys::key(Lease.declaration(), lease.namespace, lease.name);
        let (uid, holder, transitions) = (lease.uid.to_owned(), lease.holder.to_owned(), lease.transitions);
        let holds = move |entry: Option<&Entry>| {
            let object = entry.and_then(|entry| tree(entry).ok());
            object.is_some_and(|object| is_held(&object, &uid, &holder, transitions))
        };
        let name = format!("{}/{}", lease.namespace, lease.name);
        let guard = self.all_clusters().scope(lease.cluster)?.guard(&name, &key, holds);
        Ok(Fence { guard })
    }

    /// The same clusters, written to only while the fence holds.
    #[must_use]
    pub fn fenced(&self, fence: &Fence) -> Self {
        self.with_store(self.store().guarded(&fence.guard))
    }
}

fn is_held(lease: &Value, uid: &str, holder: &str, transitions: u64) -> bool {
    let found = view::integer(lease, &["spec", "leaseTransitions"]).unwrap_or(0);
    view::text(lease, &["metadata", "uid"]) == uid
        && view::text(lease, &["spec", "holderIdentity"]) == holder
        && u64::try_from(found) == Ok(transitions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_is_held_in_one_term_only() {
        let lease = |holder: &str, transitions: i64| json!({"metadata": {"uid": "u"}, "spec": {"holderIdentity": holder, "leaseTransitions": transitions}});
        assert!(is_held(&lease("a", 3), "u", "a", 3));
        assert!(!is_held(&lease("b", 3), "u", "a", 3), "somebody else's");
        assert!(!is_held(&lease("a", 5), "u", "a", 3), "taken back after somebody else had it");
        assert!(!is_held(&lease("a", 3), "v", "a", 3), "another lease of that name");
        let fresh = json!({"metadata": {"uid": "u"}, "spec": {"holderIdentity": "a"}});
        assert!(is_held(&fresh, "u", "a", 0));
    }
}
