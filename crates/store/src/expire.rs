//! Index of expiring keys by their due time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use coracle_base::Timestamp;

use crate::index::{Commit, Index};

/// Due times of existing keys that expire. Rewriting a key replaces its due time, so there is at most one per key.
#[derive(Default)]
pub(crate) struct Expiry {
    due: Mutex<BTreeSet<(Timestamp, Bytes)>>,
}

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Timestamp, Bytes)>> {
        // A panic while allocating leaves the set valid.
        self.due.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn restore(&self, index: &Index) {
        let expiring = index
            .entries_at(index.revision())
            .filter_map(|entry| Some((entry.expires_at()?, Bytes::copy_from_slice(entry.key()))));
        self.lock().extend(expiring);
    }

    /// Records commits; returns true if the earliest due time may have changed.
    pub(crate) fn note(&self, commits: &[Arc<Commit>]) -> bool {
        let mut due = None;
        let mut added = false;
        for event in commits.iter().flat_map(|commit| &commit.events) {
            let was = event.previous.as_ref().and_then(|version| version.expires_at());
            let is = event.version.expires_at();
            if was.is_none() && is.is_none() {
                continue;
            }
            // Locked only here, so that stores without expiring keys never lock.
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

    /// Returns up to `limit` keys that are due. They are removed by the commits that delete them.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Vec<Bytes> {
        let due = self.lock();
        due.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, key)| key.clone()).collect()
    }
}
