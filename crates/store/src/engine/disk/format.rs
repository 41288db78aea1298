//! Names and headers of the files on disk. `docs/format.md` describes them; change both together, and keep a fixture
//! of the old format.

use coracle_base::Rng;

use crate::revision::Revision;

/// The newest version that this program reads.
pub(super) const VERSION: u32 = 2;

/// The log version that this program writes. Version 2 added the record that names the next segment, packed values
/// and the file `END`; segments of version 1 are read, but not written.
pub(super) const LOG_VERSION: u32 = 2;

/// The version of snapshots and exports that this program writes. Their format has not changed, so older programs can
/// still read exports.
const SNAPSHOT_VERSION: u32 = 1;

/// Name of the file that records a position that the log has reached.
pub(super) const END_NAME: &str = "END";

/// The number of the first segment of every log.
pub(super) const FIRST_SEGMENT: u64 = 1;

/// Frames begin after the header block, so that writing a frame never rewrites the sector of the header.
pub(super) const HEADER_BYTES: u64 = 4096;

/// Used bytes of a header block; the rest is zero.
const HEADER_USED: usize = 64;

const LOG_MAGIC: [u8; 8] = *b"CORACLOG";
const SNAPSHOT_MAGIC: [u8; 8] = *b"CORASNAP";
const END_MAGIC: [u8; 8] = *b"CORACEND";

const TEMPORARY_SUFFIX: &str = ".tmp";

/// Identifies a store, to detect files of another store in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreId(pub(super) u64);

impl StoreId {
    pub(super) fn random(rng: &mut Rng) -> Self {
        Self(rng.u64())
    }
}

/// Header of a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) version: u32,
    pub(super) store: StoreId,
    /// Position in the log, and part of the file name.
    pub(super) number: u64,
    /// Included in every checksum of the segment, so that bytes of another file, or values that look like frames, are
    /// never taken for its frames.
    pub(super) salt: u64,
    /// The length with which the file was created. A shorter file is damaged.
    pub(super) size: u64,
}

/// Header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    pub(super) store: StoreId,
    /// The snapshot has the state after this revision.
    pub(super) revision: Revision,
    pub(super) salt: u64,
    /// The log continues in this segment, which must exist.
    pub(super) segment: u64,
}

/// A position that the log had reached when this was recorded. The log only grows, so it has reached at least this
/// position ever after: recording it late, or not at all before a crash, is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    pub(super) store: StoreId,
    /// A segment with this number, or a later one, exists.
    pub(super) segment: u64,
    /// The sequence number of the next frame.
    pub(super) sequence: u64,
    pub(super) revision: Revision,
}

/// Reason why bytes are not a valid header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    UnknownVersion(u32),
    Damaged(&'static str),
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode(LOG_MAGIC, self.version, [self.store.0, self.number, self.salt, self.size])
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let (version, [store, number, salt, size]) = decode(LOG_MAGIC, bytes)?;
        Ok(Self { version, store: StoreId(store), number, salt, size })
    }
}

impl SnapshotHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let fields = [self.store.0, self.revision.get(), self.salt, self.segment];
        encode(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, fields)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let (_, [store, revision, salt, segment]) = decode(SNAPSHOT_MAGIC, bytes)?;
        Ok(Self { store: StoreId(store), revision: Revision::new(revision), salt, segment })
    }
}

impl LogEnd {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode(END_MAGIC, LOG_VERSION, [self.store.0, self.segment, self.sequence, self.revision.get()])
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let (_, [store, segment, sequence, revision]) = decode(END_MAGIC, bytes)?;
        Ok(Self { store: StoreId(store), segment, sequence, revision: Revision::new(revision) })
    }
}

fn encode(magic: [u8; 8], version: u32, fields: [u64; 4]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    for field in fields {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    debug_assert!(bytes.len() <= HEADER_USED);
    bytes.resize(HEADER_BYTES as usize, 0);
    bytes
}

fn decode(magic: [u8; 8], bytes: &[u8]) -> Result<(u32, [u64; 4]), BadHeader> {
    const FIELDS: usize = 12;
    const CRC: usize = FIELDS + 4 * 8;
    if bytes.len() < HEADER_BYTES as usize {
        return Err(BadHeader::Damaged("the file ends within its header"));
    }
    if bytes[..8] != magic {
        return Err(BadHeader::Damaged("it does not begin as such a file does"));
    }
    let version = read_u32(bytes, 8);
    let matches = |version: u32| {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..8]);
        hasher.update(&version.to_le_bytes());
        hasher.update(&bytes[FIELDS..CRC]);
        hasher.finalize() == read_u32(bytes, CRC)
    };
    if !(1..=VERSION).contains(&version) {
        // A later version may compute the checksum differently. If the checksum fits a known version, the version
        // field itself is damaged.
        return Err(match (1..=VERSION).any(matches) {
            true => BadHeader::Damaged("the format version in its header has been changed"),
            false => BadHeader::UnknownVersion(version),
        });
    }
    if !matches(version) {
        return Err(BadHeader::Damaged("the checksum of its header does not match"));
    }
    Ok((version, std::array::from_fn(|field| read_u64(bytes, FIELDS + field * 8))))
}

/// Reads a little-endian number; the caller has checked the bounds.
pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// Reads a little-endian number; the caller has checked the bounds.
pub(super) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// Checksum of a part of a file with this salt.
pub(super) fn checksum(salt: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

pub(super) fn segment_name(number: u64) -> String {
    format!("log-{number:016x}")
}

pub(super) fn snapshot_name(revision: Revision) -> String {
    format!("snapshot-{:016x}", revision.get())
}

/// Parses the number of a segment from its file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    numbered(name, "log-")
}

/// Parses the revision of a snapshot from its file name.
pub(super) fn snapshot_revision(name: &str) -> Option<Revision> {
    numbered(name, "snapshot-").map(Revision::new)
}

pub(super) fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Files of a store by type.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// Numbers of segments, ascending.
    pub(super) segments: Vec<u64>,
    /// Revisions of snapshots, ascending.
    pub(super) snapshots: Vec<Revision>,
    /// True if the file `END` exists.
    pub(super) end: bool,
    /// Files that were being created when the process ended.
    pub(super) unfinished: Vec<String>,
}

impl Inventory {
    pub(super) fn of(names: Vec<String>) -> Self {
        let mut inventory = Self::default();
        for name in names {
            if let Some(number) = numbered(&name, "log-") {
                inventory.segments.push(number);
            } else if let Some(revision) = numbered(&name, "snapshot-") {
                inventory.snapshots.push(Revision::new(revision));
            } else if name == END_NAME {
                inventory.end = true;
            } else if name.ends_with(TEMPORARY_SUFFIX) {
                inventory.unfinished.push(name);
            }
        }
        inventory.segments.sort_unstable();
        inventory.snapshots.sort_unstable();
        inventory
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.snapshots.is_empty() && !self.end
    }
}

fn numbered(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_detect_every_flipped_bit() {
        let (version, store) = (LOG_VERSION, StoreId(1));
        let header = SegmentHeader { version, store, number: 2, salt: 3, size: 4096 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..48 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&flipped).is_err(), "bit {bit}");
        }
        assert!(SnapshotHeader::decode(&bytes).is_err());
        let end = LogEnd { store, segment: 2, sequence: 3, revision: Revision::new(4) };
        assert_eq!(LogEnd::decode(&end.encode()), Ok(end));
    }

    #[test]
    fn changed_version_is_damage_and_newer_version_is_unknown() {
        let (version, store) = (LOG_VERSION, StoreId(1));
        let mut bytes = SegmentHeader { version, store, number: 2, salt: 3, size: 4096 }.encode();
        bytes[8] = 9;
        assert!(matches!(SegmentHeader::decode(&bytes), Err(BadHeader::Damaged(_))));
        bytes[44] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes), Err(BadHeader::UnknownVersion(9)));
    }

    #[test]
    fn files_are_classified_by_name() {
        let names = [
            "log-0000000000000002",
            "log-0000000000000001",
            "snapshot-00000000000000ff",
            "LOCK",
            "END",
            "x.tmp",
            "log-2",
        ];
        let inventory = Inventory::of(names.map(String::from).to_vec());
        assert_eq!(inventory.segments, [1, 2]);
        assert_eq!(inventory.snapshots, [Revision::new(255)]);
        assert_eq!((inventory.end, inventory.unfinished), (true, vec!["x.tmp".to_owned()]));
    }
}
