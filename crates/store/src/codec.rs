//! Encoding of numbers and byte strings in files and etcd values: LEB128 lengths, then bytes. Decoding validates
//! everything.

/// The bytes are not a valid encoding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_overlong_ones_are_rejected() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            assert_eq!(Decoder::new(&out).varint(), Ok(number));
            assert_eq!(Decoder::new(&out[..out.len() - 1]).varint(), Err(Malformed));
        }
        assert_eq!(Decoder::new(&[0xff; 10]).varint(), Err(Malformed));
        assert_eq!(Decoder::new(&[0x80; 11]).varint(), Err(Malformed));
    }

    #[test]
    fn length_beyond_the_end_is_rejected() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Decoder::new(&out).bytes(), Ok(&b"abc"[..]));
        out[0] = 4;
        assert_eq!(Decoder::new(&out).bytes(), Err(Malformed));
    }
}
