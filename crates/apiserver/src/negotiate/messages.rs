//! Cache of the protobuf messages of stored objects, for later lists and watches.
//!
//! A message consists mostly of texts that the object's JSON contains as well. LZ4 with that JSON as its dictionary
//! compresses it to about a fifth of the size of the JSON, and decompresses it in a small part of the time of encoding.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coracle_api::codec::protobuf::{self, TextEncoder};
use coracle_api::schema::TypeId;
use coracle_registry::{Entry, EntryId};
use lz4_flex::block;

use super::encode::tree;
use crate::status::Refusal;

/// Memory limit of the cache. The message of a small pod takes some 450 bytes, about an eighth of the memory of the
/// object in the store.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Number of locks, so that concurrent lists seldom wait for each other.
const SHARDS: usize = 16;

/// Largest JSON of an object whose message is cached: LZ4 finds matches in the last 64 KiB only.
const MAX_JSON_BYTES: usize = 64 * 1024;

/// Memory of a cached message beside its bytes: its slot in the map, two allocations, and the version of the entry that
/// its [`EntryId`] keeps alive.
const OVERHEAD_BYTES: usize = 256;

/// A message. A packed one can be decompressed only with the JSON of its object.
#[derive(Clone)]
pub(super) enum Message {
    Packed { bytes: Arc<[u8]>, length: u32 },
    Plain(Bytes),
}

impl Message {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packed { length, .. } => *length as usize,
            Self::Plain(bytes) => bytes.len(),
        }
    }

    /// Appends the message to a buffer.
    pub(super) fn append(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self {
            Self::Plain(message) => out.extend_from_slice(message),
            Self::Packed { bytes, length } => {
                let start = out.len();
                out.resize(start + *length as usize, 0);
                block::decompress_into_with_dict(bytes, &mut out[start..], json).map_err(|error| {
                    let reason = format!("cannot unpack a protobuf message: {error}");
                    coracle_registry::Error::Corrupt { key: String::new(), reason }
                })?;
            }
        }
        Ok(())
    }
}

/// Encodes the message of an object from its JSON.
pub(super) fn encode(encoder: &mut TextEncoder, json: &[u8], id: TypeId) -> Result<Vec<u8>, Refusal> {
    let mut message = Vec::with_capacity(json.len());
    if !encoder.encode(json, id, &mut message) {
        message = protobuf::encode_message(&tree(json)?, id);
    }
    Ok(message)
}

/// The messages of one shard, in two generations. A change of generations evicts all messages that were not used since
/// the previous one.
#[derive(Default)]
struct Generations {
    young: HashMap<(EntryId, TypeId), Message>,
    old: HashMap<(EntryId, TypeId), Message>,
    young_bytes: usize,
}

impl Generations {
    fn get(&mut self, id: &(EntryId, TypeId)) -> Option<Message> {
        if let Some(message) = self.young.get(id) {
            return Some(message.clone());
        }
        let (id, message) = self.old.remove_entry(id)?;
        self.insert(id, message.clone());
        Some(message)
    }

    fn insert(&mut self, id: (EntryId, TypeId), message: Message) {
        let Message::Packed { bytes, .. } = &message else { return };
        let bytes = bytes.len() + OVERHEAD_BYTES;
        if self.young_bytes + bytes > MAX_BYTES / SHARDS / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(id, message).is_none() {
            self.young_bytes += bytes;
        }
    }
}

/// Cache of messages of all clusters of a server.
#[derive(Default)]
pub(crate) struct MessageCache {
    shards: [Mutex<Generations>; SHARDS],
    hasher: RandomState,
}

impl MessageCache {
    /// Returns the message of an object of a type, from the cache or encoded from `json`, which must be that of the
    /// entry.
    pub(super) fn get_or_encode(
        &self,
        encoder: &mut TextEncoder,
        entry: &Entry,
        json: &[u8],
        id: TypeId,
    ) -> Result<Message, Refusal> {
        // An entry without another reference, such as one that was read from etcd, is not returned by a later read.
        if json.len() > MAX_JSON_BYTES || !entry.is_shared() {
            return Ok(Message::Plain(encode(encoder, json, id)?.into()));
        }
        let key = (entry.id(), id);
        let shard = &self.shards[self.hasher.hash_one(&key) as usize % SHARDS];
        if let Some(message) = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(message);
        }
        let message = encode(encoder, json, id)?;
        let packed = block::compress_with_dict(&message, json);
        let Ok(length) = u32::try_from(message.len()) else { return Ok(Message::Plain(message.into())) };
        let message = Message::Packed { bytes: packed.into(), length };
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(key, message.clone());
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use coracle_api::schema::types;
    use coracle_registry::{EntryParts, Revision};
    use serde_json::json;

    use super::*;

    fn config_map() -> TypeId {
        types().kind("", "v1", "ConfigMap").unwrap()
    }

    fn entry(text: &str) -> Entry {
        let object = json!({"metadata": {"name": "a"}, "data": {"text": text}});
        Entry::from_parts(&EntryParts {
            key: Bytes::from_static(b"k"),
            value: object.to_string().into(),
            stamp: None,
            create_revision: Revision::new(1),
            mod_revision: Revision::new(1),
            version: 1,
            expires_at: None,
        })
    }

    fn message(cache: &MessageCache, entry: &Entry) -> Message {
        let json = entry.value();
        let message = cache.get_or_encode(&mut TextEncoder::default(), entry, &json, config_map()).unwrap();
        let mut out = b"before".to_vec();
        message.append(&json, &mut out).unwrap();
        let expected = protobuf::encode_message(&serde_json::from_slice(&json).unwrap(), config_map());
        assert_eq!(out, [b"before", &*expected].concat());
        assert_eq!(message.len(), expected.len());
        message
    }

    fn kept_bytes(cache: &MessageCache) -> usize {
        let of = |messages: &HashMap<_, Message>| messages.values().map(Message::len).sum::<usize>();
        let shards = cache.shards.iter().map(|shard| shard.lock().unwrap());
        shards.map(|shard| of(&shard.young) + of(&shard.old)).sum()
    }

    fn is_same(one: &Message, other: &Message) -> bool {
        matches!((one, other), (Message::Packed { bytes: one, .. }, Message::Packed { bytes: other, .. })
            if Arc::ptr_eq(one, other))
    }

    #[test]
    fn message_of_a_shared_entry_is_encoded_once() {
        let cache = MessageCache::default();
        let stored = entry("some text that is long enough to be found again");
        let read = stored.clone();
        let first = message(&cache, &read);
        assert!(is_same(&first, &message(&cache, &stored)));
        let other = entry("some text that is long enough to be found again");
        let shared = other.clone();
        assert!(!is_same(&first, &message(&cache, &shared)), "another entry has a message of its own");
    }

    #[test]
    fn message_of_an_unshared_entry_is_not_cached() {
        let cache = MessageCache::default();
        assert!(matches!(message(&cache, &entry("text")), Message::Plain(_)));
        assert_eq!(kept_bytes(&cache), 0);
    }

    #[test]
    fn message_of_a_large_object_is_not_cached() {
        let cache = MessageCache::default();
        let stored = entry(&"x".repeat(MAX_JSON_BYTES));
        let read = stored.clone();
        assert!(matches!(message(&cache, &read), Message::Plain(_)));
        assert_eq!(kept_bytes(&cache), 0);
    }

    #[test]
    fn cached_messages_are_bounded_and_used_ones_stay() {
        let mut generations = Generations::default();
        let packed = |byte: u8| Message::Packed { bytes: vec![byte; 64 * 1024].into(), length: 0 };
        let used = entry("used");
        generations.insert((used.id(), config_map()), packed(1));
        for _ in 0..1_000 {
            generations.insert((entry("other").id(), config_map()), packed(2));
            assert!(generations.get(&(used.id(), config_map())).is_some());
            let kept = generations.young.len() + generations.old.len();
            assert!(kept * 64 * 1024 <= MAX_BYTES / SHARDS, "{kept}");
        }
    }
}
