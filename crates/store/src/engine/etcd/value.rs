//! Encoding of values in etcd: a short header, then the value.
//!
//! The header is a byte of flags, then for each flag a number in base 128: the offset of the revision stamp, and the
//! expiry in milliseconds since the epoch. Etcd stores neither, and it reports a lease's remaining time only on
//! request and in seconds.

use bytes::Bytes;
use coracle_base::Timestamp;

use super::keyspace::Keyspace;
use super::proto::KeyValue;
use crate::codec::{Decoder, Malformed, put_varint};
use crate::entry::{Entry, EntryParts};
use crate::error::{Error, Result};
use crate::revision::Revision;

const HAS_STAMP: u8 = 1;
const HAS_EXPIRY: u8 = 1 << 1;

/// Maximum size of a 64-bit number in base 128.
const MAX_NUMBER_BYTES: usize = 10;

/// Flags and two numbers.
const MAX_HEADER_BYTES: usize = 1 + 2 * MAX_NUMBER_BYTES;

#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    stamp: Option<u32>,
    expires_at: Option<Timestamp>,
}

/// Encodes a value for etcd.
pub(super) fn encode(value: &[u8], stamp: Option<u32>, expires_at: Option<Timestamp>) -> Bytes {
    let mut bytes = Vec::with_capacity(MAX_HEADER_BYTES + value.len());
    let flag = |present: bool, flag: u8| if present { flag } else { 0 };
    bytes.push(flag(stamp.is_some(), HAS_STAMP) | flag(expires_at.is_some(), HAS_EXPIRY));
    if let Some(offset) = stamp {
        put_varint(&mut bytes, u64::from(offset));
    }
    if let Some(time) = expires_at {
        put_varint(&mut bytes, time.as_millis());
    }
    bytes.extend_from_slice(value);
    bytes.into()
}

/// Decodes an entry from etcd's response.
pub(super) fn decode(kv: &KeyValue, keyspace: &Keyspace) -> Result<Entry> {
    decode_parts(kv, keyspace).map(|parts| Entry::from_parts(&parts))
}

/// Decodes the fields of an entry. Key and value share the memory of the response.
pub(super) fn decode_parts(kv: &KeyValue, keyspace: &Keyspace) -> Result<EntryParts> {
    let (header, value) = split(&kv.value).map_err(|reason| undecodable(&kv.key, reason))?;
    Ok(EntryParts {
        key: keyspace.strip(&kv.key)?,
        value,
        stamp: header.stamp,
        create_revision: to_revision(kv.create_revision),
        mod_revision: to_revision(kv.mod_revision),
        version: kv.version.unsigned_abs(),
        expires_at: header.expires_at,
    })
}

/// Etcd's revisions are signed and never negative.
pub(super) fn to_revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

fn undecodable(key: &[u8], detail: &'static str) -> Error {
    Error::Undecodable { key: key.to_vec(), detail }
}

fn split(bytes: &Bytes) -> Result<(Header, Bytes), &'static str> {
    let mut decoder = Decoder::new(bytes);
    let flags = decoder.byte().map_err(|Malformed| "it has no header")?;
    if flags & !(HAS_STAMP | HAS_EXPIRY) != 0 {
        return Err("its header has unknown flags");
    }
    let mut header = Header::default();
    if flags & HAS_STAMP != 0 {
        let offset = decoder.varint().map_err(cut_short)?;
        header.stamp = Some(u32::try_from(offset).map_err(|_| "its stamp lies outside the value")?);
    }
    if flags & HAS_EXPIRY != 0 {
        header.expires_at = Some(Timestamp::from_millis(decoder.varint().map_err(cut_short)?));
    }
    let rest = decoder.rest();
    if header.stamp.is_some_and(|offset| offset as usize > rest.len()) {
        return Err("its stamp lies outside the value");
    }
    Ok((header, bytes.slice_ref(rest)))
}

fn cut_short(Malformed: Malformed) -> &'static str {
    "a number in its header is cut short or too large"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let times = [None, Some(0), Some(1_700_000_000_000), Some(u64::MAX)];
        for stamp in [None, Some(0), Some(4)] {
            for time in times {
                let expires_at = time.map(Timestamp::from_millis);
                let bytes = encode(b"wine", stamp, expires_at);
                let (header, value) = split(&bytes).unwrap();
                assert_eq!(header, Header { stamp, expires_at });
                assert_eq!(value, "wine");
            }
        }
    }

    #[test]
    fn a_plain_value_costs_one_byte() {
        assert_eq!(encode(b"v", None, None), &b"\0v"[..]);
        assert_eq!(split(&encode(b"", None, None)).unwrap().1, "");
    }

    #[test]
    fn hostile_bytes_are_refused_with_a_reason() {
        let endless = [&[HAS_EXPIRY], &[0xff; 11][..]].concat();
        let over_64_bits = [&[HAS_EXPIRY], &[0x80; 9][..], &[2]].concat();
        let wide_stamp = [&[HAS_STAMP][..], &[0x80, 0x80, 0x80, 0x80, 0x10], b"v"].concat();
        let cases: [(&[u8], &str); 8] = [
            (b"", "no header"),
            (b"{\"kind\":\"Pod\"}", "unknown flags"),
            (&[0x80], "unknown flags"),
            (&[HAS_STAMP], "cut short"),
            (&[HAS_STAMP | HAS_EXPIRY, 0, 0x80], "cut short"),
            (&[HAS_STAMP, 2, b'v'], "outside the value"),
            (&wide_stamp, "outside the value"),
            (&endless, "too large"),
        ];
        for (bytes, reason) in cases {
            let error = split(&Bytes::copy_from_slice(bytes)).unwrap_err();
            assert!(error.contains(reason), "{bytes:?}: {error}");
        }
        assert!(split(&over_64_bits.into()).unwrap_err().contains("too large"));
    }

    #[test]
    fn no_short_input_panics() {
        for length in 0..4 {
            for number in 0..1u32 << (8 * length.min(2)) {
                let bytes =
                    [&number.to_le_bytes()[..length.min(2)], &vec![0xff; length.saturating_sub(2)]].concat();
                let _ = split(&bytes.into());
            }
        }
    }

    #[test]
    fn an_undecodable_value_is_named_by_its_key() {
        let kv = KeyValue { key: "coracle/pods/a".into(), value: "\u{7f}".into(), ..KeyValue::default() };
        let error = decode(&kv, &Keyspace::new("coracle/")).unwrap_err();
        assert!(error.to_string().contains("coracle/pods/a"), "{error}");
    }
}
