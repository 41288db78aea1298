//! Keys that delete themselves: when each is due.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use coracle_base::Timestamp;

use crate::index::{Commit, Index};

/// Due times of live keys that expire. Never larger than the number of such keys: a key
/// that is written again gives up its old place.
#[derive(Default)]
pub(crate) struct Expiry {
    due: Mutex<BTreeSet<(Timestamp, Bytes)>>,
}

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, Bytes)>> {
        // Set operations leave the set whole even if an allocation panics.
        self.due.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn restore(&self, index: &Index) {
        let expiring = index
            .entries_at(index.revision())
            .filter_map(|entry| Some((entry.expires_at()?, Bytes::copy_from_slice(entry.key()))));
        self.lock().extend(expiring);
    }

    /// Takes note of commits; says whether the earliest due time may have moved.
    pub(crate) fn note(&self, commits: &[Arc<Commit>]) -> bool {
        let mut due = None;
        let mut added = false;
        for event in commits.iter().flat_map(|commit| &commit.events) {
            let was = event.previous.as_ref().and_then(|version| version.expires_at());
            let is = event.version.expires_at();
            if was.is_none() && is.is_none() {
                continue;
            }
            // Taken only here, so that stores without expiring keys never touch the lock.
            let due = due.get_or_insert_with(|| self.lock());
            let key = Bytes::copy_from_slice(event.version.key());
            if let Some(was) = was {
                due.remove(&(was, key.clone()));
            }
            if let Some(is) = is {
                due.insert((is, key));
                added = true;
            }
        }
        added
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.lock().first().map(|(due, _)| *due)
    }

    /// Up to `limit` keys whose time has come. They stay until a commit deletes them.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Vec<Bytes> {
        let due = self.lock();
        due.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, key)| key.clone()).collect()
    }
}
