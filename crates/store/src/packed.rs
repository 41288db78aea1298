//! Compression of long values.
//!
//! Most values are short and read often; they are stored plain. The few long ones, mainly CustomResourceDefinitions,
//! are read rarely and are repetitive. They are packed with LZ4, which costs a fraction of writing them, and
//! unpacking costs less than sending them. The log packs the same values the same way, so that it does not outgrow
//! the history that it stores; snapshots and exports do not.

use bytes::Bytes;

/// Shorter values are not packed: the gain is small, and they are read often.
const MIN_BYTES: usize = 32 << 10;

/// A packed value must be smaller by at least this factor; otherwise unpacking is not worth it.
const LEAST_GAIN: usize = 2;

/// Packs everything after the key, if that is worth it.
pub(crate) fn pack(data: &[u8], key_len: usize) -> Option<Bytes> {
    let (key, value) = data.split_at(key_len);
    // Boxed to its exact size, because the spare capacity of a vector would live as long as the value.
    pack_value(value).map(|packed| [key, &packed].concat().into_boxed_slice().into())
}

/// Packs a value, if that is worth it.
pub(crate) fn pack_value(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() < MIN_BYTES {
        return None;
    }
    let packed = lz4_flex::block::compress(value);
    (packed.len() <= value.len() / LEAST_GAIN).then_some(packed)
}

/// Unpacks the result of [`pack_value`] for a value of `length` bytes; `None` if the bytes are not that.
pub(crate) fn try_unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    lz4_flex::block::decompress(packed, length).ok().filter(|value| value.len() == length)
}

/// Unpacks the result of [`pack`] for a value of `length` bytes.
pub(crate) fn unpack(packed: &[u8], length: usize) -> Vec<u8> {
    lz4_flex::block::decompress(packed, length).expect("packed by this process and never changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poorly_compressible_value_is_not_packed() {
        assert_eq!(pack(&b"short ".repeat(10), 3), None);
        // A generator of incompressible numbers.
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
