//! Records, of which frames consist.

use bytes::Bytes;
use coracle_base::Timestamp;

use crate::codec::{Decoder, Malformed, put_bytes, put_varint};
use crate::index::Change;
use crate::packed;
use crate::revision::Revision;
use crate::txn::MAX_VALUE_BYTES;

/// A logged event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A committed transaction, which creates the next revision.
    Commit(Vec<Change>),
    /// History before this revision was discarded.
    Compacted { oldest: Revision },
    /// The store was closed cleanly.
    Closed,
    /// The log continues in this segment, which was durable before this record was written. The last record of a full
    /// segment, so that the loss of the next segment is detected.
    Continues { segment: u64 },
}

const COMMIT: u8 = 1;
const COMPACTED: u8 = 2;
const CLOSED: u8 = 3;
const CONTINUES: u8 = 4;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_PREFIX: u8 = 3;

/// Flags of a put whose value is stamped, or whose key expires.
const HAS_STAMP: u8 = 0x40;
const EXPIRES: u8 = 0x80;

/// Flag of a put whose value is packed, as long values are in memory: the log's size on disk then follows the
/// history's size in memory.
const PACKED: u8 = 0x20;

pub(super) fn encode(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Commit(changes) => {
            out.push(COMMIT);
            put_varint(out, changes.len() as u64);
            changes.iter().for_each(|change| encode_change(change, out));
        }
        Record::Compacted { oldest } => {
            out.push(COMPACTED);
            put_varint(out, oldest.get());
        }
        Record::Closed => out.push(CLOSED),
        Record::Continues { segment } => {
            out.push(CONTINUES);
            put_varint(out, *segment);
        }
    }
}

fn encode_change(change: &Change, out: &mut Vec<u8>) {
    match change {
        Change::Put { key, value, stamp, expires_at } => {
            let stamped = if stamp.is_some() { HAS_STAMP } else { 0 };
            let expires = if expires_at.is_some() { EXPIRES } else { 0 };
            let packed = packed::pack_value(value);
            let flag = if packed.is_some() { PACKED } else { 0 };
            out.push(PUT | stamped | expires | flag);
            put_bytes(out, key);
            if let Some(stamp) = stamp {
                put_varint(out, u64::from(*stamp));
            }
            if let Some(expires_at) = expires_at {
                put_varint(out, expires_at.as_millis());
            }
            match packed {
                Some(packed) => {
                    put_varint(out, value.len() as u64);
                    put_bytes(out, &packed);
                }
                None => put_bytes(out, value),
            }
        }
        Change::Delete { key } => {
            out.push(DELETE);
            put_bytes(out, key);
        }
        Change::DeletePrefix { prefix } => {
            out.push(DELETE_PREFIX);
            put_bytes(out, prefix);
        }
    }
}

pub(super) fn decode_all(payload: &[u8]) -> Result<Vec<Record>, Malformed> {
    let mut decoder = Decoder::new(payload);
    let mut records = Vec::new();
    while !decoder.is_empty() {
        records.push(decode(&mut decoder)?);
    }
    Ok(records)
}

fn decode(decoder: &mut Decoder<'_>) -> Result<Record, Malformed> {
    match decoder.byte()? {
        COMMIT => {
            let count = decoder.varint()?;
            // Without reserving capacity, because the count is untrusted.
            let changes: Result<Vec<_>, _> = (0..count).map(|_| decode_change(decoder)).collect();
            Ok(Record::Commit(changes?))
        }
        COMPACTED => Ok(Record::Compacted { oldest: Revision::new(decoder.varint()?) }),
        CLOSED => Ok(Record::Closed),
        CONTINUES => Ok(Record::Continues { segment: decoder.varint()? }),
        _ => Err(Malformed),
    }
}

fn decode_change(decoder: &mut Decoder<'_>) -> Result<Change, Malformed> {
    let tag = decoder.byte()?;
    match tag & !(HAS_STAMP | EXPIRES | PACKED) {
        PUT => decode_put(tag, decoder),
        DELETE if tag == DELETE => Ok(Change::Delete { key: copy(decoder.bytes()?) }),
        DELETE_PREFIX if tag == DELETE_PREFIX => Ok(Change::DeletePrefix { prefix: copy(decoder.bytes()?) }),
        _ => Err(Malformed),
    }
}

fn decode_put(tag: u8, decoder: &mut Decoder<'_>) -> Result<Change, Malformed> {
    let key = copy(decoder.bytes()?);
    let stamp = match tag & HAS_STAMP {
        0 => None,
        _ => Some(u32::try_from(decoder.varint()?).map_err(|_| Malformed)?),
    };
    let expires_at = match tag & EXPIRES {
        0 => None,
        _ => Some(Timestamp::from_millis(decoder.varint()?)),
    };
    let value = match tag & PACKED {
        0 => copy(decoder.bytes()?),
        _ => decode_packed(decoder)?,
    };
    if stamp.is_some_and(|at| at as usize > value.len()) {
        return Err(Malformed);
    }
    Ok(Change::Put { key, value, stamp, expires_at })
}

fn decode_packed(decoder: &mut Decoder<'_>) -> Result<Bytes, Malformed> {
    let length = usize::try_from(decoder.varint()?).map_err(|_| Malformed)?;
    // Checked before allocating, because the length is untrusted.
    if length > MAX_VALUE_BYTES {
        return Err(Malformed);
    }
    packed::try_unpack(decoder.bytes()?, length).map(Bytes::from).ok_or(Malformed)
}

fn copy(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let key = Bytes::from_static(b"key");
        let put = |stamp, expires_at| Change::Put {
            key: key.clone(),
            value: Bytes::from_static(b"value"),
            stamp,
            expires_at,
        };
        let at = Some(Timestamp::from_millis(1_700_000_000_000));
        vec![
            Record::Commit(vec![put(None, None), put(Some(5), None), put(None, at), put(Some(0), at)]),
            Record::Commit(vec![
                Change::Delete { key: key.clone() },
                Change::DeletePrefix { prefix: Bytes::new() },
            ]),
            Record::Compacted { oldest: Revision::new(300) },
            Record::Continues { segment: 3 },
            Record::Closed,
        ]
    }

    #[test]
    fn long_repetitive_value_is_written_packed() {
        let value = Bytes::from(b"as schemas have it ".repeat(4_000));
        let put = |value: &Bytes| {
            let (key, value) = (Bytes::from_static(b"k"), value.clone());
            Record::Commit(vec![Change::Put { key, value, stamp: Some(3), expires_at: None }])
        };
        let mut bytes = Vec::new();
        encode(&put(&value), &mut bytes);
        assert!(bytes.len() < value.len() / 10, "{} bytes", bytes.len());
        assert_eq!(decode_all(&bytes), Ok(vec![put(&value)]));
        for end in 0..bytes.len() {
            assert_ne!(decode_all(&bytes[..end]), Ok(vec![put(&value)]));
        }
    }

    #[test]
    fn records_round_trip_and_no_prefix_of_them_panics() {
        let mut bytes = Vec::new();
        samples().iter().for_each(|record| encode(record, &mut bytes));
        assert_eq!(decode_all(&bytes), Ok(samples()));
        for end in 0..bytes.len() {
            assert_ne!(decode_all(&bytes[..end]), Ok(samples()));
        }
    }

    #[test]
    fn stamp_outside_its_value_is_rejected() {
        let change = Change::Put {
            key: Bytes::from_static(b"k"),
            value: Bytes::new(),
            stamp: Some(1),
            expires_at: None,
        };
        let mut bytes = Vec::new();
        encode(&Record::Commit(vec![change]), &mut bytes);
        assert_eq!(decode_all(&bytes), Err(Malformed));
    }
}
