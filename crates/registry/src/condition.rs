//! Preconditions on other objects that admission adds to the transaction of a write.
//!
//! A plugin that reads another object decides on a state that may be stale when the write is committed. A condition
//! closes that gap: the transaction compares the object's revision with the one that was checked. If the object has
//! changed meanwhile, the store returns its new state with the conflict; that state is checked again, and the same
//! transaction is committed again. A condition needs no additional reads.

use std::sync::{Mutex, PoisonError};

use coracle_store::{At, Entry, Expect};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::lifecycle::read;

/// Accepts or rejects the state of an object; `None` if it does not exist.
pub(crate) type Check = Box<dyn Fn(Option<&Value>) -> Result<()> + Send + Sync>;

/// The conditions of one write. Interior mutability lets admission add to them through a shared reference.
#[derive(Default)]
pub struct Conditions {
    all: Mutex<Vec<Condition>>,
}

/// An object and the revision that was accepted.
pub(crate) struct Condition {
    kind: &'static dyn Kind,
    pub(crate) key: String,
    pub(crate) expect: Expect,
    check: Check,
}

impl Conditions {
    pub(crate) async fn add(
        &self,
        cluster: &Cluster,
        kind: &'static dyn Kind,
        (namespace, name): (&str, &str),
        check: Check,
    ) -> Result<()> {
        let key = keys::key(kind.declaration(), namespace, name);
        let judge = |found: Option<&Entry>| {
            let object = found.map(|entry| cluster.seen(kind, entry)).transpose()?;
            check(object.as_deref())
        };
        // An accepted state becomes a condition of the transaction, so a stale read is safe here. A rejected state
        // never reaches a transaction, so the latest state is checked before the rejection.
        let mut found = cluster.store.get_at(&key, At::Cached).await?.entry;
        if judge(found.as_ref()).is_err() {
            found = cluster.store.get(&key).await?.entry;
            judge(found.as_ref())?;
        }
        let condition = Condition { kind, key, expect: expect(found.as_ref()), check };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // A second pass of admission replaces the condition by one on the newest state.
        all.retain(|known| known.key != condition.key);
        all.push(condition);
        Ok(())
    }

    pub(crate) fn into_all(self) -> Vec<Condition> {
        self.all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condition {
    /// Checks the state in which a conflict found the object, and expects that state from now on.
    pub(crate) fn judge_again(&mut self, found: Option<&Entry>) -> Result<()> {
        let object = found.map(|entry| read(self.kind, entry)).transpose()?;
        (self.check)(object.as_ref())?;
        self.expect = expect(found);
        Ok(())
    }
}

fn expect(found: Option<&Entry>) -> Expect {
    found.map_or(Expect::Absent, |entry| Expect::ModRevision(entry.mod_revision()))
}
