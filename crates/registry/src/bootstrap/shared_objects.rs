//! The shared bootstrap objects in encoded form, prepared once for all servers of a process with the same settings.
//!
//! They differ between two clusters in their UIDs, because clients distinguish clusters by the UID of the namespace
//! `kube-system`, and between two servers in their creation time. So the bytes have placeholders for both, and one
//! for the revision.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_meta::time::Time;
use serde_json::Value;

use super::overlay::fingerprint;
use super::{ServerInfo, objects};
use crate::allocation::Record;
use crate::cluster::{Cluster, Registry};
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::keys;
use crate::network::ServiceNetwork;

/// Placeholder for the UID.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Placeholder for the creation time: 2000-01-01T00:00:00Z.
const NO_TIME: Time = Time(946_684_800);

/// Length of the date in a timestamp.
const DAY_LENGTH: usize = "2000-01-01".len();

/// The objects of the last server. Most processes have one server; in a process with many servers they mostly have
/// the same settings, so that all but the first start faster and share the memory.
static LAST: Mutex<Option<Arc<SharedObjects>>> = Mutex::new(None);

/// The objects of servers with the same settings.
pub(crate) struct SharedObjects {
    server_info: ServerInfo,
    network: ServiceNetwork,
    objects: Objects,
    digest: String,
}

impl SharedObjects {
    /// The objects of a server with these settings.
    pub(super) fn of(registry: &Registry, server_info: &ServerInfo) -> Result<Arc<Self>> {
        Self::cached(&LAST, registry, server_info)
    }

    /// The cached objects if they have the same settings, otherwise new ones.
    fn cached(
        last: &Mutex<Option<Arc<Self>>>,
        registry: &Registry,
        server_info: &ServerInfo,
    ) -> Result<Arc<Self>> {
        let last = || last.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch_cluster = registry.scratch_cluster(NO_TIME)?;
        let network = scratch_cluster.service_network();
        if let Some(shared) = &*last()
            && shared.server_info == *server_info
            && shared.network == *network
        {
            return Ok(Arc::clone(shared));
        }
        let objects = Objects::make(&scratch_cluster, server_info)?;
        let digest = objects.digest();
        let shared =
            Arc::new(Self { server_info: server_info.clone(), network: network.clone(), objects, digest });
        *last() = Some(Arc::clone(&shared));
        Ok(shared)
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Digest by which changes are detected.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }
}

/// The objects by key.
pub(super) struct Objects(BTreeMap<Vec<u8>, Template>);

impl Objects {
    /// Prepares the objects as create requests would.
    fn make(scratch_cluster: &Cluster, server_info: &ServerInfo) -> Result<Self> {
        let mut templates = BTreeMap::new();
        for seed in objects::all(scratch_cluster, server_info) {
            let object = seed.prepare(scratch_cluster)?;
            let declaration = seed.kind.declaration();
            for allocation in seed.kind.allocations(&object) {
                if let Record::Object(held) = allocation.record {
                    templates
                        .insert(allocation.key.into_bytes(), Template::of(scratch_cluster.complete(held))?);
                }
            }
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let key = keys::key(declaration, seed.namespace, name);
            templates.insert(key.into_bytes(), Template::of(object)?);
        }
        Ok(Self(templates))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Template> {
        self.0.get(key)
    }

    /// Keys in a range, in order.
    pub(super) fn keys(&self, range: impl RangeBounds<Vec<u8>>) -> impl Iterator<Item = &[u8]> {
        self.0.range(range).map(|(key, _)| key.as_slice())
    }

    fn digest(&self) -> String {
        let parts = self.0.iter().flat_map(|(key, template)| [key.as_slice(), &template.encoded.bytes]);
        format!("{:032x}", fingerprint(parts))
    }
}

/// An encoded object and the offsets of its placeholders.
pub(super) struct Template {
    encoded: Encoded,
    uid_at: usize,
    /// Offset and length of each time: some values contain only the date.
    times: Vec<(usize, usize)>,
}

impl Template {
    fn of(mut object: Value) -> Result<Self> {
        object["metadata"]["uid"] = NO_UID.into();
        let encoded = Encoded::of(&object);
        let json = str::from_utf8(&encoded.bytes).unwrap_or_default();
        let uid_at = json.find(NO_UID).ok_or_else(|| corrupt("no place for the uid".to_owned()))?;
        let time = NO_TIME.to_string();
        let length = |at: usize| if json[at..].starts_with(&time) { time.len() } else { DAY_LENGTH };
        let times = json.match_indices(&time[..DAY_LENGTH]).map(|(at, _)| (at, length(at))).collect();
        Ok(Self { encoded, uid_at, times })
    }

    /// The object of one cluster, with its creation time.
    pub(super) fn filled(&self, uid: &str, since: &Since) -> Encoded {
        let mut bytes = self.encoded.bytes.to_vec();
        let mut fill = |at: usize, text: &str| bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        fill(self.uid_at, uid);
        self.times.iter().for_each(|(at, length)| fill(*at, &since.0[..*length]));
        Encoded { bytes: bytes.into(), stamp: self.encoded.stamp }
    }
}

fn corrupt(reason: String) -> Error {
    Error::Corrupt { key: "bootstrap".into(), reason }
}

/// The creation time of bootstrap objects, as text.
pub(super) struct Since(String);

impl Since {
    /// Fails unless the year has four digits.
    pub(super) fn new(time: Time) -> Result<Self> {
        let text = time.to_string();
        if text.len() != NO_TIME.to_string().len() {
            return Err(corrupt(format!("clusters cannot be there since {text}")));
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-17T12:34:56Z.
    const SOME_TIME: Time = Time(1_794_918_896);

    #[tokio::test]
    async fn objects_have_the_creation_time_of_their_server() {
        let registry = Registry::in_memory();
        let endpoint = super::super::Endpoint::new("192.0.2.1:6443".parse().unwrap());
        let server_info =
            ServerInfo { endpoint, client_ca: Some("a certificate".into()), ..ServerInfo::default() };
        let then = Objects::make(&registry.scratch_cluster(SOME_TIME).unwrap(), &server_info).unwrap();
        let shared = SharedObjects::of(&registry, &server_info).unwrap();
        let since = Since::new(SOME_TIME).unwrap();
        assert_eq!(then.0.len(), shared.objects.0.len());
        for (key, template) in &then.0 {
            let filled = shared.objects.get(key).unwrap().filled(NO_UID, &since);
            assert_eq!(filled.bytes, template.encoded.bytes, "{}", String::from_utf8_lossy(key));
        }
    }

    #[tokio::test]
    async fn servers_with_equal_settings_share_objects() {
        let last = Mutex::new(None);
        let shared = |server_info: &ServerInfo| {
            SharedObjects::cached(&last, &Registry::in_memory(), server_info).unwrap()
        };
        let (one, other) = (shared(&ServerInfo::default()), shared(&ServerInfo::default()));
        assert!(Arc::ptr_eq(&one, &other));
        let server_info = ServerInfo { client_ca: Some("a certificate".into()), ..ServerInfo::default() };
        assert_ne!(shared(&server_info).digest(), one.digest());
        assert_eq!(shared(&ServerInfo::default()).digest(), one.digest());
    }

    #[test]
    fn time_with_five_digit_year_is_rejected() {
        assert!(Since::new(Time(300_000_000_000)).is_err());
    }
}
