//! Snapshots: all entries as of one revision, in blocks with a checksum each. Exports have the same format.

use std::io::{self, Read, Write};

use bytes::Bytes;
use coracle_base::Timestamp;

use super::format::{BadHeader, HEADER_BYTES, SnapshotHeader, checksum, read_u32, read_u64};
use crate::codec::{Decoder, Malformed, put_bytes, put_varint};
use crate::entry::EntryParts;
use crate::revision::Revision;

/// A block is written when it reaches this size.
const BLOCK_BYTES: usize = 256 << 10;

/// Maximum size of a block: nearly full, plus the largest entry.
const MAX_BLOCK_BYTES: usize = 8 << 20;

/// Payload length, number of entries, checksum.
const BLOCK_HEADER_BYTES: usize = 12;

const HAS_STAMP: u8 = 1;
const EXPIRES: u8 = 2;

/// Writes a snapshot.
pub(super) struct SnapshotWriter<W> {
    out: W,
    salt: u64,
    block: Vec<u8>,
    block_entries: u32,
    blocks: u64,
    entries: u64,
}

impl<W: Write> SnapshotWriter<W> {
    pub(super) fn begin(mut out: W, header: &SnapshotHeader) -> io::Result<Self> {
        out.write_all(&header.encode())?;
        Ok(Self { out, salt: header.salt, block: Vec::new(), block_entries: 0, blocks: 0, entries: 0 })
    }

    pub(super) fn push(&mut self, parts: &EntryParts) -> io::Result<()> {
        encode_entry(parts, &mut self.block);
        self.block_entries += 1;
        self.entries += 1;
        if self.block.len() >= BLOCK_BYTES { self.flush_block() } else { Ok(()) }
    }

    fn flush_block(&mut self) -> io::Result<()> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        header[0..4].copy_from_slice(&(self.block.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&self.block_entries.to_le_bytes());
        let crc = block_checksum(self.salt, self.blocks, &header, &self.block);
        header[8..12].copy_from_slice(&crc.to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(&self.block)?;
        self.block.clear();
        self.block_entries = 0;
        self.blocks += 1;
        Ok(())
    }

    /// Writes the remaining entries and the end marker, which contains the number of entries.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.block_entries > 0 {
            self.flush_block()?;
        }
        self.block.extend_from_slice(&self.entries.to_le_bytes());
        self.flush_block()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn block_checksum(salt: u64, number: u64, header: &[u8; BLOCK_HEADER_BYTES], payload: &[u8]) -> u32 {
    checksum(salt, &[&number.to_le_bytes(), &header[..8], payload])
}

/// Reason why a snapshot cannot be read.
#[derive(Debug)]
pub(super) enum SnapshotError {
    Header(BadHeader),
    Damaged { offset: u64, detail: &'static str },
    Io(io::Error),
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        SnapshotError::Io(error)
    }
}

/// Reads a snapshot block by block.
pub(super) struct SnapshotReader<R> {
    input: R,
    pub(super) header: SnapshotHeader,
    offset: u64,
    blocks: u64,
    entries: u64,
}

impl<R: Read> SnapshotReader<R> {
    pub(super) fn begin(mut input: R) -> Result<Self, SnapshotError> {
        let mut block = Vec::with_capacity(HEADER_BYTES as usize);
        input.by_ref().take(HEADER_BYTES).read_to_end(&mut block)?;
        let header = SnapshotHeader::decode(&block).map_err(SnapshotError::Header)?;
        Ok(Self { input, header, offset: HEADER_BYTES, blocks: 0, entries: 0 })
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// The entries of the next block; `None` after the last.
    pub(super) fn next_block(&mut self) -> Result<Option<Vec<EntryParts>>, SnapshotError> {
        let damaged = |offset, detail| SnapshotError::Damaged { offset, detail };
        let at = self.offset;
        let mut header = [0; BLOCK_HEADER_BYTES];
        read_exact(&mut self.input, &mut header, at)?;
        let len = read_u32(&header, 0) as usize;
        if len > MAX_BLOCK_BYTES {
            return Err(damaged(at, "a block's length is invalid"));
        }
        let mut payload = vec![0; len];
        read_exact(&mut self.input, &mut payload, at)?;
        if block_checksum(self.header.salt, self.blocks, &header, &payload) != read_u32(&header, 8) {
            return Err(damaged(at, "a block's checksum does not match"));
        }
        self.offset += (BLOCK_HEADER_BYTES + len) as u64;
        self.blocks += 1;
        let count = read_u32(&header, 4);
        if count == 0 {
            let complete = payload.len() == 8 && read_u64(&payload, 0) == self.entries;
            return if complete { Ok(None) } else { Err(damaged(at, "entries are missing")) };
        }
        let entries =
            decode_block(&payload).map_err(|Malformed| damaged(at, "a block's content is invalid"))?;
        if entries.len() != count as usize {
            return Err(damaged(at, "a block's number of entries is wrong"));
        }
        self.entries += entries.len() as u64;
        Ok(Some(entries))
    }
}

fn read_exact(input: &mut impl Read, buffer: &mut [u8], at: u64) -> Result<(), SnapshotError> {
    input.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            SnapshotError::Damaged { offset: at, detail: "the file has been cut off" }
        }
        _ => SnapshotError::Io(error),
    })
}

fn encode_entry(parts: &EntryParts, out: &mut Vec<u8>) {
    let stamped = if parts.stamp.is_some() { HAS_STAMP } else { 0 };
    let expires = if parts.expires_at.is_some() { EXPIRES } else { 0 };
    out.push(stamped | expires);
    put_bytes(out, &parts.key);
    put_varint(out, parts.create_revision.get());
    put_varint(out, parts.mod_revision.get());
    put_varint(out, parts.version);
    if let Some(stamp) = parts.stamp {
        put_varint(out, u64::from(stamp));
    }
    if let Some(expires_at) = parts.expires_at {
        put_varint(out, expires_at.as_millis());
    }
    put_bytes(out, &parts.value);
}

fn decode_block(payload: &[u8]) -> Result<Vec<EntryParts>, Malformed> {
    let mut decoder = Decoder::new(payload);
    let mut entries = Vec::new();
    while !decoder.is_empty() {
        entries.push(decode_entry(&mut decoder)?);
    }
    Ok(entries)
}

fn decode_entry(decoder: &mut Decoder<'_>) -> Result<EntryParts, Malformed> {
    let flags = decoder.byte()?;
    if flags & !(HAS_STAMP | EXPIRES) != 0 {
        return Err(Malformed);
    }
    let key = Bytes::copy_from_slice(decoder.bytes()?);
    let create_revision = Revision::new(decoder.varint()?);
    let mod_revision = Revision::new(decoder.varint()?);
    let version = decoder.varint()?;
    let stamp = match flags & HAS_STAMP {
        0 => None,
        _ => Some(u32::try_from(decoder.varint()?).map_err(|_| Malformed)?),
    };
    let expires_at = match flags & EXPIRES {
        0 => None,
        _ => Some(Timestamp::from_millis(decoder.varint()?)),
    };
    let value = Bytes::copy_from_slice(decoder.bytes()?);
    if version == 0 || key.is_empty() || stamp.is_some_and(|at| at as usize > value.len()) {
        return Err(Malformed);
    }
    Ok(EntryParts { key, value, stamp, create_revision, mod_revision, version, expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::disk::format::StoreId;

    fn sample(entries: u64) -> (Vec<u8>, Vec<EntryParts>) {
        let header = SnapshotHeader { store: StoreId(1), revision: Revision::new(900), salt: 7, segment: 1 };
        let mut writer = SnapshotWriter::begin(Vec::new(), &header).expect("memory does not fail");
        let entries: Vec<_> = (0..entries)
            .map(|n| EntryParts {
                key: format!("key-{n}").into(),
                value: vec![n as u8; 1000].into(),
                stamp: (n % 2 == 0).then_some(3),
                create_revision: Revision::new(n + 2),
                mod_revision: Revision::new(n + 3),
                version: n + 1,
                expires_at: (n % 3 == 0).then(|| Timestamp::from_millis(n)),
            })
            .collect();
        entries.iter().for_each(|entry| writer.push(entry).expect("memory does not fail"));
        (writer.finish().expect("memory does not fail"), entries)
    }

    fn read(bytes: &[u8]) -> Result<Vec<EntryParts>, SnapshotError> {
        let mut reader = SnapshotReader::begin(bytes)?;
        let mut all = Vec::new();
        while let Some(block) = reader.next_block()? {
            all.extend(block);
        }
        Ok(all)
    }

    #[test]
    fn snapshots_round_trip() {
        for count in [0, 1, 700] {
            let (bytes, entries) = sample(count);
            let again = read(&bytes).expect("it is whole");
            assert_eq!(format!("{again:?}"), format!("{entries:?}"));
        }
    }

    #[test]
    fn every_truncation_and_flipped_bit_is_detected() {
        let (bytes, _) = sample(3);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut at {end}");
        }
        let (used, padding) = (0..48, HEADER_BYTES as usize..bytes.len());
        for at in used.chain(padding) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(read(&flipped).is_err(), "flipped at {at}");
        }
    }
}
