//! Long values that are kept in less memory.
//!
//! Most values are short and read often; they stay as they are. The few long ones, definitions of
//! custom resources above all, are read seldom and say the same again and again. They are packed with LZ4,
//! which costs a fraction of what it costs to write them and less to unpack than to send. The log
//! packs the same values the same way, so that it does not outgrow what it is the history of;
//! snapshots and exports do not.

use bytes::Bytes;

/// Values below this length are not packed: there is little to gain, and they are what is read often.
const MIN_BYTES: usize = 32 << 10;

/// What is packed takes at most one part in so many; what gains less is not worth unpacking.
const LEAST_GAIN: usize = 2;

/// The same data with everything after the key packed, if that is worth it.
pub(crate) fn pack(data: &[u8], key_len: usize) -> Option<Bytes> {
    let (key, value) = data.split_at(key_len);
    // Exact size: the slack of a vector would be kept as long as the value.
    pack_value(value).map(|packed| [key, &packed].concat().into_boxed_slice().into())
}

/// A value packed, if that is worth it.
pub(crate) fn pack_value(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() < MIN_BYTES {
        return None;
    }
    let packed = lz4_flex::block::compress(value);
    (packed.len() <= value.len() / LEAST_GAIN).then_some(packed)
}

/// What [`pack_value`] made of a value of `length` bytes, if these bytes are that.
pub(crate) fn try_unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    lz4_flex::block::decompress(packed, length).ok().filter(|value| value.len() == length)
}

/// What [`pack`] made of a value of `length` bytes.
pub(crate) fn unpack(packed: &[u8], length: usize) -> Vec<u8> {
    lz4_flex::block::decompress(packed, length).expect("packed by this process and never changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_gain_little_stays_as_it_is() {
        assert_eq!(pack(&b"short ".repeat(10), 3), None);
        // A generator of numbers that nobody compresses.
        let mut state = 1_u32;
        let noise: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        assert_eq!(pack(&noise, 10), None);
    }
}
