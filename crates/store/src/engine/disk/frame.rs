//! Frames: the units that one sync makes durable.
//!
//! The writer syncs each frame before it writes the next. So an unreadable frame is an incomplete write, which was
//! never acknowledged, exactly if no readable frame follows it; otherwise durable data is damaged.

use coracle_base::Timestamp;

use super::format::{checksum, read_u32, read_u64};
use super::record::{self, Record};
use crate::codec::Malformed;
use crate::revision::Revision;

const MAGIC: u32 = u32::from_le_bytes(*b"CFr1");

pub(super) const FRAME_HEADER_BYTES: usize = 40;

/// Frames begin at multiples of this; searches for frames advance by it.
pub(super) const FRAME_ALIGN: usize = 8;

/// Maximum length of a frame: a batch and the largest transaction that can exceed its limit.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// Space reserved at the end of every segment for the frame that names the next segment: a header, one byte and the
/// longest varint.
pub(super) const CONTINUES_BYTES: u64 = (FRAME_HEADER_BYTES + 1 + 10).next_multiple_of(FRAME_ALIGN) as u64;

/// The fixed-size header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    crc: u32,
    pub(super) payload_len: usize,
    pub(super) records: u32,
    /// Number of the frame in the whole log, to detect missing frames.
    pub(super) sequence: u64,
    /// Revision of the store before this frame.
    pub(super) base: Revision,
    pub(super) at: Timestamp,
}

/// Reason why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAFrame {
    /// Only zeros in place of a header: nothing was written here.
    Blank,
    /// Anything else.
    Broken(&'static str),
}

impl FrameHeader {
    /// Returns true if a frame could begin with these bytes.
    pub(super) fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    pub(super) fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, NotAFrame> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(NotAFrame::Blank);
        }
        if read_u32(bytes, 0) != MAGIC {
            return Err(NotAFrame::Broken("no frame begins here"));
        }
        let payload_len = read_u32(bytes, 8) as usize;
        if payload_len > MAX_FRAME_BYTES {
            return Err(NotAFrame::Broken("its length is impossible"));
        }
        Ok(Self {
            crc: read_u32(bytes, 4),
            payload_len,
            records: read_u32(bytes, 12),
            sequence: read_u64(bytes, 16),
            base: Revision::new(read_u64(bytes, 24)),
            at: Timestamp::from_millis(read_u64(bytes, 32)),
        })
    }

    pub(super) fn matches(&self, header: &[u8; FRAME_HEADER_BYTES], payload: &[u8], salt: u64) -> bool {
        checksum(salt, &[&header[8..], payload]) == self.crc
    }

    /// Bytes of the frame, including header and padding.
    pub(super) fn total_len(&self) -> u64 {
        padded(FRAME_HEADER_BYTES + self.payload_len) as u64
    }
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(FRAME_ALIGN)
}

/// Builds frames in a reusable buffer.
#[derive(Default)]
pub(super) struct FrameBuilder {
    bytes: Vec<u8>,
    records: u32,
}

/// Capacity to which the buffer shrinks after a larger frame.
const BUFFER_KEPT: usize = 1 << 20;

impl FrameBuilder {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_KEPT);
        self.bytes.resize(FRAME_HEADER_BYTES, 0);
        self.records = 0;
    }

    pub(super) fn push(&mut self, record: &Record) {
        record::encode(record, &mut self.bytes);
        self.records += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn payload_len(&self) -> usize {
        self.bytes.len().saturating_sub(FRAME_HEADER_BYTES)
    }

    /// Length of the finished frame.
    pub(super) fn total_len(&self) -> u64 {
        padded(self.bytes.len()) as u64
    }

    /// Returns the finished bytes, to be written with one call. Call once per [`Self::clear`].
    pub(super) fn finish(&mut self, salt: u64, sequence: u64, base: Revision, at: Timestamp) -> &[u8] {
        let payload_len = (self.bytes.len() - FRAME_HEADER_BYTES) as u32;
        self.bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&payload_len.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&self.records.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&base.get().to_le_bytes());
        self.bytes[32..40].copy_from_slice(&at.as_millis().to_le_bytes());
        let crc = checksum(salt, &[&self.bytes[8..]]);
        self.bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        self.bytes.resize(padded(self.bytes.len()), 0);
        &self.bytes
    }
}

/// Decodes all records of a frame whose checksum matched.
pub(super) fn records(header: &FrameHeader, payload: &[u8]) -> Result<Vec<Record>, Malformed> {
    let records = record::decode_all(payload)?;
    if records.len() != header.records as usize {
        return Err(Malformed);
    }
    Ok(records)
}
