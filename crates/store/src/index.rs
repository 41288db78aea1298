//! All keys in order, each with its latest version, which links to the previous ones.
//!
//! A persistent map: a clone copies one pointer, so a reader's snapshot is free and never blocks the writer. Deleted
//! keys stay as tombstones until compaction has passed them, because reads of past revisions need the versions behind
//! them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use coracle_base::Timestamp;
use imbl::OrdSet;

use crate::entry::{Entry, EntryParts, Version};
use crate::error::{Error, Result};
use crate::key;
use crate::read::{Range, RangeRequest};
use crate::revision::Revision;
use crate::txn::{Committed, Op, Txn};

/// All changes of one revision.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) at: Timestamp,
    pub(crate) events: Box<[Event]>,
}

/// A change of one key.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) version: Arc<Version>,
    pub(crate) previous: Option<Arc<Version>>,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&key::display(self.version.key()))
    }
}

/// A change whose conditions have been checked, as stored in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put { key: Bytes, value: Bytes, stamp: Option<u32>, expires_at: Option<Timestamp> },
    Delete { key: Bytes },
    DeletePrefix { prefix: Bytes },
}

/// A change made by another store, with its revisions there.
#[cfg(feature = "etcd")]
#[derive(Clone, Debug)]
pub(crate) enum Mirrored {
    Put(EntryParts),
    Delete(Bytes),
}

/// A transaction that has been applied to an index but is not durable yet.
pub(crate) struct Staged {
    pub(crate) committed: Committed,
    /// The commit, and the changes to log; `None` if nothing changed.
    pub(crate) effect: Option<(Arc<Commit>, Vec<Change>)>,
}

#[derive(Clone)]
struct Slot(Arc<Version>);

impl Borrow<[u8]> for Slot {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Slot {}

/// State of a store at one revision, with the past versions that compaction has kept.
#[derive(Clone)]
pub(crate) struct Index {
    latest: OrdSet<Slot>,
    revision: Revision,
    live_keys: u64,
    live_bytes: u64,
}

impl Index {
    pub(crate) fn empty(revision: Revision) -> Self {
        Self { latest: OrdSet::new(), revision, live_keys: 0, live_bytes: 0 }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn live_keys(&self) -> u64 {
        self.live_keys
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.live(key).map(|version| Entry::new(version.clone()))
    }

    pub(crate) fn get_at(&self, key: &[u8], revision: Revision) -> Option<Entry> {
        let Slot(latest) = self.latest.get(key)?;
        visible(latest, revision).map(Entry::new)
    }

    fn live(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.latest.get(key).map(|Slot(version)| version).filter(|version| version.is_live())
    }

    /// Existing versions from the first key of the request on, as of `revision`.
    fn walk<'a>(
        &'a self,
        first: &'a [u8],
        prefix: &[u8],
        revision: Revision,
    ) -> impl Iterator<Item = Arc<Version>> + 'a {
        let end = key::prefix_end(prefix);
        let slots = match &end {
            Some(end) if end.as_slice() <= first => None,
            Some(end) => {
                Some(self.latest.range::<_, [u8]>((Bound::Included(first), Bound::Excluded(end.as_slice()))))
            }
            None => Some(self.latest.range::<_, [u8]>((Bound::Included(first), Bound::Unbounded))),
        };
        slots.into_iter().flatten().filter_map(move |Slot(latest)| visible(latest, revision))
    }

    pub(crate) fn range(&self, request: &RangeRequest, revision: Revision) -> Range {
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let mut versions = self.walk(request.first_key(), &request.prefix, revision);
        let entries: Vec<Entry> = versions.by_ref().take(limit).map(Entry::new).collect();
        let (more, remaining) = if request.count_remaining {
            let remaining = versions.count() as u64;
            (remaining > 0, Some(remaining))
        } else {
            (versions.next().is_some(), None)
        };
        Range { entries, more, remaining, revision }
    }

    pub(crate) fn count(&self, prefix: &[u8], revision: Revision) -> u64 {
        self.walk(prefix, prefix, revision).count() as u64
    }

    /// Every entry that existed at `revision`, in key order.
    pub(crate) fn entries_at(&self, revision: Revision) -> impl Iterator<Item = Entry> {
        self.latest.iter().filter_map(move |Slot(latest)| visible(latest, revision)).map(Entry::new)
    }

    /// Checks a transaction's conditions and applies it.
    pub(crate) fn stage(&mut self, txn: Txn, now: Timestamp) -> Result<Staged> {
        for (key, expect) in txn.conditions() {
            let found = self.live(key);
            if !expect.is_met_by(found.map(|version| version.mod_revision())) {
                return Err(Error::conflict(key, expect, found.map(|version| Entry::new(version.clone()))));
            }
        }
        let mut previous = Vec::with_capacity(txn.ops.len());
        let mut changes = Vec::with_capacity(txn.ops.len());
        for op in txn.ops {
            let single = match &op {
                Op::Put(put) => Some(&put.key),
                Op::Delete(delete) => Some(&delete.key),
                Op::DeletePrefix(_) => None,
            };
            if let Some(key) = single {
                previous.push(self.get(key));
            }
            changes.push(change(op, now));
        }
        let (effect, deleted) = self.apply(&changes, now);
        let committed = Committed { revision: self.revision, previous, deleted };
        Ok(Staged { committed, effect: effect.map(|commit| (commit, changes)) })
    }

    /// Applies changes at the next revision; none if nothing changes. Also returns the number of keys deleted by
    /// prefix.
    pub(crate) fn apply(&mut self, changes: &[Change], at: Timestamp) -> (Option<Arc<Commit>>, u64) {
        let revision = self.revision.next();
        let mut events = Vec::with_capacity(changes.len());
        let mut deleted = 0;
        for change in changes {
            match change {
                Change::Put { key, value, stamp, expires_at } => {
                    events.push(self.put(revision, key, value, *stamp, *expires_at));
                }
                Change::Delete { key } => events.extend(self.delete(revision, key)),
                Change::DeletePrefix { prefix } => {
                    let before = events.len();
                    self.delete_prefix(revision, prefix, &mut events);
                    deleted += (events.len() - before) as u64;
                }
            }
        }
        if events.is_empty() {
            return (None, 0);
        }
        self.revision = revision;
        (Some(Arc::new(Commit { revision, at, events: events.into() })), deleted)
    }

    /// Applies a commit of the mirrored store; one without changes only advances the revision.
    #[cfg(feature = "etcd")]
    pub(crate) fn follow<'a>(
        &mut self,
        revision: Revision,
        at: Timestamp,
        changes: impl IntoIterator<Item = &'a Mirrored>,
    ) -> Arc<Commit> {
        let events = changes.into_iter().filter_map(|change| match change {
            Mirrored::Put(parts) => {
                let latest = self.latest.get(&parts.key[..]).map(|Slot(version)| version.clone());
                let previous = latest.clone().filter(|version| version.is_live());
                let version = Version::packed(parts, latest);
                self.replace(&version, previous.as_deref());
                Some(Event { version, previous })
            }
            Mirrored::Delete(key) => self.delete(revision, key),
        });
        let events = events.collect();
        self.revision = revision;
        Arc::new(Commit { revision, at, events })
    }

    fn put(
        &mut self,
        revision: Revision,
        key: &Bytes,
        value: &Bytes,
        stamp: Option<u32>,
        expires_at: Option<Timestamp>,
    ) -> Event {
        let latest = self.latest.get(&key[..]).map(|Slot(version)| version.clone());
        let previous = latest.clone().filter(|version| version.is_live());
        let parts = EntryParts {
            key: key.clone(),
            value: value.clone(),
            stamp,
            create_revision: previous.as_ref().map_or(revision, |version| version.create_revision()),
            mod_revision: revision,
            version: previous.as_ref().map_or(1, |version| version.version() + 1),
            expires_at,
        };
        let version = Version::packed(&parts, latest);
        self.replace(&version, previous.as_deref());
        Event { version, previous }
    }

    fn delete(&mut self, revision: Revision, key: &[u8]) -> Option<Event> {
        let previous = self.live(key)?.clone();
        let version = Version::tombstone(&previous, revision);
        self.replace(&version, Some(&previous));
        Some(Event { version, previous: Some(previous) })
    }

    fn delete_prefix(&mut self, revision: Revision, prefix: &[u8], events: &mut Vec<Event>) {
        let deleted: Vec<Arc<Version>> = self.walk(prefix, prefix, self.revision).collect();
        events.extend(deleted.iter().filter_map(|version| self.delete(revision, version.key())));
    }

    fn replace(&mut self, version: &Arc<Version>, previous: Option<&Version>) {
        if let Some(previous) = previous {
            self.live_keys -= 1;
            self.live_bytes -= previous.data_len() as u64;
        }
        if version.is_live() {
            self.live_keys += 1;
            self.live_bytes += version.data_len() as u64;
        }
        self.latest.insert(Slot(version.clone()));
    }

    /// Adds an entry of a snapshot with its revisions.
    pub(crate) fn restore(&mut self, parts: &EntryParts) {
        self.replace(&Version::packed(parts, None), None);
    }

    /// Removes a tombstone that compaction has passed, unless the key was written again.
    pub(crate) fn purge(&mut self, tombstone: &Arc<Version>) {
        let key = tombstone.key();
        if self.latest.get(key).is_some_and(|Slot(latest)| Arc::ptr_eq(latest, tombstone)) {
            self.latest.remove(key);
        }
    }
}

fn visible(latest: &Arc<Version>, revision: Revision) -> Option<Arc<Version>> {
    latest.at(revision).filter(|version| version.is_live())
}

fn change(op: Op, now: Timestamp) -> Change {
    match op {
        Op::Put(put) => Change::Put {
            key: put.key.into(),
            value: put.value,
            stamp: put.stamp,
            expires_at: put.ttl.map(|ttl| now + ttl),
        },
        Op::Delete(delete) => Change::Delete { key: delete.key.into() },
        Op::DeletePrefix(prefix) => Change::DeletePrefix { prefix: prefix.into() },
    }
}
