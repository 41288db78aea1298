//! The shared objects as bytes, and how they look in one cluster.
//!
//! They differ between clusters in their identities only: people tell clusters apart by the uid
//! of the namespace `kube-system`. So the bytes have a place for it, as they have one for the
//! revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_store::{Base, Entry, EntryParts, Revision};
use serde_json::Value;

use super::{Site, objects};
use crate::claim::Record;
use crate::cluster::{Cluster, uid};
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::keys;

/// Stands where each cluster has its own.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// An encoded object, and where in it the uid is.
#[derive(Clone)]
struct Template {
    encoded: Encoded,
    uid_at: usize,
}

impl Template {
    fn of(mut object: Value) -> Result<Self> {
        object["metadata"]["uid"] = NO_UID.into();
        let encoded = Encoded::of(&object);
        let uid_at = encoded.bytes.windows(NO_UID.len()).position(|part| part == NO_UID.as_bytes());
        let corrupt = || Error::Corrupt { key: "bootstrap".into(), reason: "no place for the uid".into() };
        Ok(Self { encoded, uid_at: uid_at.ok_or_else(corrupt)? })
    }

    fn with_uid(&self, uid: &str) -> Encoded {
        let mut bytes = self.encoded.bytes.to_vec();
        bytes[self.uid_at..self.uid_at + NO_UID.len()].copy_from_slice(uid.as_bytes());
        Encoded { bytes: bytes.into(), stamp: self.encoded.stamp }
    }
}

/// The objects, by their keys.
pub(crate) struct Objects(BTreeMap<Vec<u8>, Template>);

impl Objects {
    /// Makes them, as a client's creation would.
    pub(super) fn make(workshop: &Cluster, site: &Site) -> Result<Self> {
        let mut made = BTreeMap::new();
        for seed in objects::all(workshop, site) {
            let object = seed.grow(workshop)?;
            let declaration = seed.kind.declaration();
            for claim in seed.kind.claims(&object) {
                if let Record::Object(held) = claim.record {
                    made.insert(claim.key.into_bytes(), Template::of(workshop.complete(held))?);
                }
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let key = keys::key(declaration, seed.namespace, name);
            made.insert(key.into_bytes(), Template::of(object)?);
        }
        Ok(Self(made))
    }

    /// By which a change is noticed.
    pub(super) fn digest(&self) -> String {
        let parts = self.0.iter().flat_map(|(key, template)| [key.as_slice(), &template.encoded.bytes]);
        format!("{:032x}", fingerprint(parts))
    }
}

/// What all clusters share.
pub(crate) struct Shared {
    objects: Objects,
    revision: Revision,
    seed: String,
}

impl Shared {
    pub(super) fn new(objects: Objects, revision: Revision, seed: &str) -> Self {
        Self { objects, revision, seed: seed.to_owned() }
    }
}

/// What lies beneath the objects of one cluster.
pub(crate) struct ClusterBase {
    shared: Arc<Shared>,
    cluster: String,
}

impl ClusterBase {
    pub(crate) fn new(shared: Arc<Shared>, cluster: &str) -> Self {
        Self { shared, cluster: cluster.to_owned() }
    }

    pub(super) fn encoded(&self, key: &[u8]) -> Option<Encoded> {
        let template = self.shared.objects.0.get(key)?;
        let identity = fingerprint([self.shared.seed.as_bytes(), self.cluster.as_bytes(), key]);
        Some(template.with_uid(&uid((identity >> 64) as u64, identity as u64)))
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
        self.shared.objects.0.contains_key(key)
    }

    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let from = self.shared.objects.0.range(prefix.to_vec()..);
        from.map(|(key, _)| key).take_while(|key| key.starts_with(prefix)).cloned().collect()
    }
}

/// FNV-1a with 128 bits, and a last stir so that all bits depend on all bytes. It must never
/// change: identities come from it.
fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
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
