//! Fencing: writes that are bound to a lease. A component that may run in several processes writes only while it
//! holds the lease.
//!
//! A process that was suspended, or cut off from the store, may continue requests that it began before another
//! process acquired the lease. The lease is a condition of the transactions of those requests, so they change
//! nothing.

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
    /// The cluster of the lease; may differ from the cluster that is written to.
    pub cluster: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID: a lease that is deleted and created again has another one.
    pub uid: &'a str,
    /// The holder.
    pub holder: &'a str,
    /// `leaseTransitions` at the beginning of the term.
    pub transitions: u64,
}

/// Binds writes to a term of a lease. Cheap to clone; a request carries it as an extension.
#[derive(Clone, Debug)]
pub struct Fence {
    guard: Arc<Guard>,
}

impl Registry {
    /// Binds writes to a term of a lease.
    ///
    /// # Errors
    /// If the id of the cluster is malformed.
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

    /// The same clusters; writes through this handle fail unless the fence holds.
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
    fn lease_of_another_term_is_not_held() {
        let lease = |holder: &str, transitions: i64| json!({"metadata": {"uid": "u"}, "spec": {"holderIdentity": holder, "leaseTransitions": transitions}});
        assert!(is_held(&lease("a", 3), "u", "a", 3));
        assert!(!is_held(&lease("b", 3), "u", "a", 3), "another holder");
        assert!(!is_held(&lease("a", 5), "u", "a", 3), "reacquired after another holder");
        assert!(!is_held(&lease("a", 3), "v", "a", 3), "another lease of that name");
        let fresh = json!({"metadata": {"uid": "u"}, "spec": {"holderIdentity": "a"}});
        assert!(is_held(&fresh, "u", "a", 0));
    }
}
