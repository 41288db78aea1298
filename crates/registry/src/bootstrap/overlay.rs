//! The view of the shared bootstrap objects in one cluster.

use std::sync::Arc;

use coracle_store::{Base, Entry, EntryParts, Revision};

use super::shared_objects::{SharedObjects, Since};
use crate::cluster::uid;
use crate::encode::Encoded;

/// Data that all clusters share.
pub(crate) struct Shared {
    pub(super) shared_objects: Arc<SharedObjects>,
    pub(super) revision: Revision,
    pub(super) seed: String,
    pub(super) since: Since,
}

/// The bootstrap objects beneath the objects of one cluster.
pub(crate) struct ClusterBase {
    shared: Arc<Shared>,
    /// Distinguishes the cluster from all others, including former ones with the same id.
    cluster: String,
}

impl ClusterBase {
    /// `uid` is that of the cluster; empty for the default cluster and for adopted ones.
    pub(crate) fn new(shared: Arc<Shared>, id: &str, uid: &str) -> Self {
        let cluster = if uid.is_empty() { id.to_owned() } else { format!("{id}/{uid}") };
        Self { shared, cluster }
    }

    pub(super) fn encoded(&self, key: &[u8]) -> Option<Encoded> {
        let Shared { shared_objects, seed, since, .. } = &*self.shared;
        let template = shared_objects.objects().get(key)?;
        let identity = fingerprint([seed.as_bytes(), self.cluster.as_bytes(), key]);
        Some(template.filled(&uid((identity >> 64) as u64, identity as u64), since))
    }
}

impl Base for ClusterBase {
    fn revision(&self) -> Revision {
        self.shared.revision
    }

    fn get(&self, key: &[u8]) -> Option<Entry> {
        let Encoded { bytes, stamp } = self.encoded(key)?;
        Some(Entry::from_parts(&EntryParts {
            key: key.to_vec().into(),
            value: bytes,
            stamp: Some(stamp),
            create_revision: self.shared.revision,
            mod_revision: self.shared.revision,
            version: 1,
            expires_at: None,
        }))
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.shared.shared_objects.objects().get(key).is_some()
    }

    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let from = self.shared.shared_objects.objects().keys(prefix.to_vec()..);
        from.take_while(|key| key.starts_with(prefix)).map(<[u8]>::to_vec).collect()
    }
}

/// FNV-1a with 128 bits and a finalizer, so that all bits depend on all bytes. Must never change, because UIDs are
/// derived from it.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash = OFFSET;
    for part in parts {
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(part) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }
    for _ in 0..2 {
        hash = (hash ^ hash >> 67).wrapping_mul(PRIME | 1 << 77);
    }
    hash ^ hash >> 61
}
