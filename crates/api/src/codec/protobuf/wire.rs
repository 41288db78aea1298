//! The protobuf wire format: varints, lengths and bytes.

use crate::codec::DecodeError;
use crate::codec::text::lossy;

/// Maximum length of a 64-bit varint, with seven bits per byte.
const MAX_VARINT_BYTES: usize = 10;

/// A field of a message.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Wire<'a>,
}

/// The value of a field on the wire.
#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Wire types that no Kubernetes field has.
    Other,
}

/// The fields of a message, in order. Ends after an error.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<Field<'a>, DecodeError> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| fault("proto: illegal tag"))?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default())),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            3 => self.skip_group()?,
            5 => {
                self.take(4)?;
                Wire::Other
            }
            other => return Err(fault(&format!("proto: illegal wireType {other}"))),
        };
        Ok(Field { number, value })
    }

    /// Skips a group, a deprecated form that nests; no Kubernetes field uses it.
    fn skip_group(&mut self) -> Result<Wire<'a>, DecodeError> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.varint()? & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let length = self.varint()?;
                    self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
                }
                3 => depth += 1,
                4 => depth -= 1,
                5 => drop(self.take(4)?),
                other => return Err(fault(&format!("proto: illegal wireType {other}"))),
            }
        }
        Ok(Wire::Other)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| fault("unexpected EOF"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        varint(&mut self.rest)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(fault("proto: wrong wireType for a field of bytes")),
        }
    }

    /// Text. Invalid UTF-8 becomes U+FFFD, as when Go encodes it in JSON.
    pub(super) fn text(self) -> Result<String, DecodeError> {
        self.bytes().map(|bytes| lossy(bytes).into_owned())
    }

    pub(super) fn number(self) -> Result<u64, DecodeError> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(fault("proto: wrong wireType for a number")),
        }
    }

    pub(super) fn double(self) -> Result<f64, DecodeError> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(fault("proto: wrong wireType for a floating-point number")),
        }
    }
}

/// Decodes a varint: seven bits per byte, lowest first.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0_u64;
    for (index, byte) in rest.iter().take(MAX_VARINT_BYTES).enumerate() {
        // Only one bit of the tenth byte fits; others are dropped, as in Go.
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Ok(number);
        }
    }
    Err(fault(if rest.len() < MAX_VARINT_BYTES { "unexpected EOF" } else { "proto: integer overflow" }))
}

pub(super) fn fault(message: &str) -> DecodeError {
    DecodeError::Protobuf { message: message.to_owned() }
}

pub(super) fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn write_number(out: &mut Vec<u8>, field: u32, number: u64) {
    write_varint(out, u64::from(field) << 3);
    write_varint(out, number);
}

pub(crate) fn write_double(out: &mut Vec<u8>, field: u32, number: f64) {
    write_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// Writes the tag and the length of a length-delimited field.
pub(super) fn write_length(out: &mut Vec<u8>, field: u32, length: usize) {
    write_varint(out, u64::from(field) << 3 | 2);
    write_varint(out, length as u64);
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    write_length(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes a message whose length is known only afterwards: one byte is reserved for the length, and longer messages
/// are moved.
pub(crate) fn write_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    write_varint(out, u64::from(field) << 3 | 2);
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return;
    }
    let content = start + varint_bytes(length as u64);
    out.resize(content + length, 0);
    out.copy_within(start + 1..start + 1 + length, content);
    let mut rest = length;
    for byte in &mut out[start..content] {
        *byte = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    out[content - 1] &= 0x7f;
}

/// Size of a varint.
pub(super) fn varint_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}
