//! One version of a key, and the [`Entry`] through which readers access it.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use coracle_base::Timestamp;

use crate::packed;
use crate::revision::Revision;

/// A key with its value and revisions, as of the snapshot it was read from. Clones share the bytes.
#[derive(Clone)]
pub struct Entry {
    version: Arc<Version>,
    /// Length of the key's leading bytes that belong to the reader's scope and are hidden.
    scope_len: usize,
}

/// Identifies one version of one key in memory, for caches of data derived from it.
///
/// No other version has the same identity while a clone of it exists. A clone keeps the memory of the version alive,
/// without key and value.
#[derive(Clone)]
pub struct EntryId(Weak<Version>);

impl PartialEq for EntryId {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for EntryId {}

impl Hash for EntryId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

/// The fields of an [`Entry`], for engines that receive entries from elsewhere.
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// The full key.
    pub key: Bytes,
    /// The value as written, without the revision stamp.
    pub value: Bytes,
    /// Offset in `value` at which readers see the decimal mod revision; see [`crate::Put::stamp_at`].
    pub stamp: Option<u32>,
    /// Revision at which the key was created.
    pub create_revision: Revision,
    /// Revision at which this version was written.
    pub mod_revision: Revision,
    /// Number of writes since the key was created, starting at 1.
    pub version: u64,
    /// When the key expires, if it does.
    pub expires_at: Option<Timestamp>,
}

/// One version of a key: about 100 bytes in addition to the allocation for key and value.
pub(crate) struct Version {
    /// The key, then the value as readers see it, possibly packed, in one allocation.
    data: Bytes,
    key_len: u32,
    /// Length of the unpacked value; `PLAIN` if it is not packed.
    packed_from: u32,
    /// Offset in the value of the stamped revision; `NO_STAMP` if there is none.
    stamp: u32,
    create: Revision,
    modified: Revision,
    /// 0 marks a tombstone: the key does not exist from `modified` on.
    version: u64,
    /// 0 if the key does not expire.
    expires_ms: u64,
    /// The previous version, until compaction removes it.
    older: ArcSwapOption<Version>,
}

const NO_STAMP: u32 = u32::MAX;

const PLAIN: u32 = 0;

impl Version {
    /// A short-lived version, which is never packed.
    pub(crate) fn plain(parts: &EntryParts, older: Option<Arc<Version>>) -> Arc<Self> {
        let data = join(&parts.key, &parts.value, parts.stamp, parts.mod_revision);
        Self::of(parts, data, PLAIN, older)
    }

    /// A long-lived version: a long value is packed if that makes it much shorter.
    pub(crate) fn packed(parts: &EntryParts, older: Option<Arc<Version>>) -> Arc<Self> {
        let data = join(&parts.key, &parts.value, parts.stamp, parts.mod_revision);
        match packed::pack(&data, parts.key.len()) {
            Some(packed) => Self::of(parts, packed, (data.len() - parts.key.len()) as u32, older),
            None => Self::of(parts, data, PLAIN, older),
        }
    }

    fn of(parts: &EntryParts, data: Bytes, packed_from: u32, older: Option<Arc<Version>>) -> Arc<Self> {
        Arc::new(Self {
            data,
            key_len: parts.key.len() as u32,
            packed_from,
            stamp: parts.stamp.unwrap_or(NO_STAMP),
            create: parts.create_revision,
            modified: parts.mod_revision,
            version: parts.version,
            expires_ms: parts.expires_at.map_or(0, Timestamp::as_millis),
            older: ArcSwapOption::new(older),
        })
    }

    pub(crate) fn tombstone(previous: &Arc<Version>, revision: Revision) -> Arc<Self> {
        Arc::new(Self {
            data: Bytes::copy_from_slice(previous.key()),
            key_len: previous.key_len,
            packed_from: PLAIN,
            stamp: NO_STAMP,
            create: revision,
            modified: revision,
            version: 0,
            expires_ms: 0,
            older: ArcSwapOption::new(Some(previous.clone())),
        })
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.data[..self.key_len as usize]
    }

    pub(crate) fn is_live(&self) -> bool {
        self.version != 0
    }

    pub(crate) fn create_revision(&self) -> Revision {
        self.create
    }

    pub(crate) fn mod_revision(&self) -> Revision {
        self.modified
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        (self.expires_ms != 0).then(|| Timestamp::from_millis(self.expires_ms))
    }

    /// Size of key and value in bytes.
    pub(crate) fn data_len(&self) -> usize {
        self.key_len as usize + self.value_len()
    }

    /// Memory of this version, except its fixed overhead.
    pub(crate) fn memory_len(&self) -> usize {
        self.data.len()
    }

    fn value_len(&self) -> usize {
        match self.packed_from {
            PLAIN => self.data.len() - self.key_len as usize,
            length => length as usize,
        }
    }

    fn value(&self) -> Bytes {
        match self.value_bytes() {
            Cow::Borrowed(_) => self.data.slice(self.key_len as usize..),
            Cow::Owned(value) => value.into(),
        }
    }

    fn value_bytes(&self) -> Cow<'_, [u8]> {
        let stored = &self.data[self.key_len as usize..];
        match self.packed_from {
            PLAIN => Cow::Borrowed(stored),
            length => Cow::Owned(packed::unpack(stored, length as usize)),
        }
    }

    /// The version of this key that was current at `revision`, including tombstones.
    pub(crate) fn at(self: &Arc<Self>, revision: Revision) -> Option<Arc<Version>> {
        let mut candidate = self.clone();
        while candidate.modified > revision {
            let older = candidate.older.load_full()?;
            candidate = older;
        }
        Some(candidate)
    }

    /// Releases all previous versions.
    pub(crate) fn cut_older(&self) {
        self.older.store(None);
    }
}

impl Drop for Version {
    /// Frees a long chain in a loop: the derived drop would recurse once per version and overflow the stack on a key
    /// that was written often.
    fn drop(&mut self) {
        let mut next = self.older.swap(None);
        while let Some(version) = next {
            next = Arc::into_inner(version).and_then(|only| only.older.swap(None));
        }
    }
}

fn join(key: &[u8], value: &[u8], stamp: Option<u32>, revision: Revision) -> Bytes {
    let mut data = Vec::with_capacity(key.len() + value.len() + if stamp.is_some() { 20 } else { 0 });
    data.extend_from_slice(key);
    match stamp {
        None => data.extend_from_slice(value),
        Some(at) => {
            let (before, after) = value.split_at(at as usize);
            data.extend_from_slice(before);
            data.extend_from_slice(revision.to_string().as_bytes());
            data.extend_from_slice(after);
        }
    }
    // Boxed to its exact size, because the spare capacity of a vector would live as long as the value.
    data.into_boxed_slice().into()
}

impl Entry {
    /// Creates an entry received from outside, such as from etcd.
    pub fn from_parts(parts: &EntryParts) -> Self {
        Self::new(Version::plain(parts, None))
    }

    pub(crate) fn new(version: Arc<Version>) -> Self {
        Self { version, scope_len: 0 }
    }

    pub(crate) fn in_scope(mut self, scope_len: usize) -> Self {
        self.scope_len += scope_len;
        self
    }

    /// The key, relative to the scope it was read through.
    pub fn key(&self) -> &[u8] {
        &self.version.key()[self.scope_len..]
    }

    /// The value: shared without copying, unless it is packed.
    pub fn value(&self) -> Bytes {
        self.version.value()
    }

    /// The value: borrowed, unless it is packed.
    pub fn value_bytes(&self) -> Cow<'_, [u8]> {
        self.version.value_bytes()
    }

    /// Length of the value in bytes.
    pub fn value_len(&self) -> usize {
        self.version.value_len()
    }

    /// The identity of this version.
    pub fn id(&self) -> EntryId {
        EntryId(Arc::downgrade(&self.version))
    }

    /// Returns true if something else holds this version, such as the index of an engine, so that a later read may
    /// return it again.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.version) > 1
    }

    /// Returns true if both are the same version in memory; equal content is not enough.
    pub fn is_same(&self, other: &Entry) -> bool {
        Arc::ptr_eq(&self.version, &other.version)
    }

    /// Revision of the write that created the key.
    pub fn create_revision(&self) -> Revision {
        self.version.create
    }

    /// Revision of the write that created this version.
    pub fn mod_revision(&self) -> Revision {
        self.version.modified
    }

    /// Number of writes since the key was created, starting at 1.
    pub fn version(&self) -> u64 {
        self.version.version
    }

    /// When the key expires, if it does.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.version.expires_at()
    }

    /// The fields of the entry, with the value as it was written, to write it to another store.
    pub fn to_parts(&self) -> EntryParts {
        let version = &*self.version;
        let stamp = (version.stamp != NO_STAMP).then_some(version.stamp);
        EntryParts {
            key: version.data.slice(..version.key_len as usize).slice(self.scope_len..),
            value: self.unstamped(stamp),
            stamp,
            create_revision: version.create,
            mod_revision: version.modified,
            version: version.version,
            expires_at: version.expires_at(),
        }
    }

    fn unstamped(&self, stamp: Option<u32>) -> Bytes {
        let Some(at) = stamp else { return self.value() };
        let digits = self.version.modified.to_string().len();
        let value = self.value_bytes();
        let (before, rest) = value.split_at(at as usize);
        [before, &rest[digits..]].concat().into()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets and are never printed.
        f.debug_struct("Entry")
            .field("key", &crate::key::display(self.key()))
            .field("create_revision", &self.create_revision())
            .field("mod_revision", &self.mod_revision())
            .field("version", &self.version())
            .field("value_len", &self.value_len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(value: &'static str, stamp: Option<u32>, revision: u64) -> EntryParts {
        EntryParts {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(value.as_bytes()),
            stamp,
            create_revision: Revision::new(2),
            mod_revision: Revision::new(revision),
            version: 1,
            expires_at: None,
        }
    }

    #[test]
    fn stamped_value_contains_its_revision_and_can_be_unstamped() {
        let entry = Entry::from_parts(&parts(r#"{"rv":""}"#, Some(7), 1234));
        assert_eq!(entry.value(), r#"{"rv":"1234"}"#);
        assert_eq!(entry.to_parts().value, r#"{"rv":""}"#);
    }

    #[test]
    fn version_identity_is_unique() {
        let entry = Entry::from_parts(&parts("a", None, 1));
        let id = entry.id();
        assert!(id == entry.clone().id());
        assert!(!entry.is_shared());
        let clone = entry.clone();
        assert!(entry.is_shared());
        drop((entry, clone));
        // The memory of the first version is not reused while its identity exists.
        let others: Vec<Entry> = (0..100).map(|_| Entry::from_parts(&parts("a", None, 1))).collect();
        assert!(others.iter().all(|other| other.id() != id));
    }

    #[test]
    fn long_value_is_stored_packed() {
        let value = format!(r#"{{"rv":"","text":"{}"}}"#, "as schemas have it ".repeat(4_000));
        let parts = EntryParts { value: value.clone().into(), ..parts("", Some(7), 1234) };
        let entry = Entry::new(Version::packed(&parts, None));
        assert!(entry.version.memory_len() < value.len() / 10, "{}", entry.version.memory_len());
        let seen = value.replacen(r#""rv":"""#, r#""rv":"1234""#, 1);
        assert_eq!((entry.key(), entry.value_len()), (&b"k"[..], seen.len()));
        assert_eq!(entry.value(), seen.as_bytes());
        assert_eq!(&*entry.value_bytes(), seen.as_bytes());
        assert_eq!(entry.to_parts().value, value.as_bytes());
    }

    #[test]
    fn long_version_chain_is_dropped_without_recursion() {
        let mut latest = Version::plain(&parts("v", None, 2), None);
        for revision in 3..300_000 {
            latest = Version::plain(&parts("v", None, revision), Some(latest));
        }
        assert_eq!(latest.at(Revision::new(2)).expect("kept").modified, Revision::new(2));
        drop(latest);
    }
}
