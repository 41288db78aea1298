//! Reads a store's files, to open the store or to check it without changes.
//!
//! The sequence of frames shows whether the log is complete: frames are numbered without gaps across segments. Bytes
//! after the last frame that are not a frame are an incomplete, unacknowledged write. A frame after unreadable bytes,
//! a gap in the numbers, or a log that ends before its recorded end means that durable data is missing; the store is
//! then not opened.
//!
//! The files can also be read as they would be after a repair (see [`Cut`]), which determines how to recover from
//! damage.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use coracle_base::Timestamp;

use super::damage::{Cut, Damage, Fault, WayOut};
use super::end::{self, RecordedEnd};
use super::files::{File, Files, io_error};
use super::format::{
    BadHeader, END_NAME, FIRST_SEGMENT, HEADER_BYTES, Inventory, LOG_VERSION, SnapshotHeader, StoreId,
    VERSION, segment_name, snapshot_name,
};
use super::frame::{self, FrameHeader, NotAFrame};
use super::record::Record;
use super::segment::{FrameReader, Segment, Step};
use super::snapshot::{SnapshotError, SnapshotReader};
use super::{FileReport, Torn};
use crate::entry::EntryParts;
use crate::error::{Error, Result};
use crate::index::Change;
use crate::revision::Revision;
use crate::transfer::Progress;

/// Receives the contents of the files, in order.
pub(super) trait Sink {
    /// The files begin with the state after this revision.
    fn begin(&mut self, revision: Revision);
    fn entry(&mut self, parts: &EntryParts);
    /// A commit that creates the next revision. Returns false if it is invalid.
    fn commit(&mut self, changes: &[Change], at: Timestamp) -> bool;
    fn compacted(&mut self, oldest: Revision);
}

/// The result of a scan.
pub(super) struct Scan {
    pub(super) store: StoreId,
    pub(super) revision: Revision,
    pub(super) next_sequence: u64,
    /// Empty only for a cut that leaves a snapshot and no log.
    pub(super) segments: Vec<ScannedSegment>,
    /// Index of the segment in which the log continues; those after it have no frame.
    pub(super) tail: usize,
    /// The next segment, if the last record names it.
    pub(super) continues: Option<u64>,
    pub(super) recorded_end: RecordedEnd,
    pub(super) closed_cleanly: bool,
    pub(super) files: Vec<FileReport>,
}

pub(super) struct ScannedSegment {
    pub(super) segment: Segment,
    pub(super) frames: u64,
    /// Revision of the store at its end.
    pub(super) last: Revision,
    /// Offset at which its frames end.
    pub(super) end: u64,
    /// Offset at which bytes written after them end.
    pub(super) written_end: u64,
}

impl ScannedSegment {
    fn number(&self) -> u64 {
        self.segment.header.number
    }
}

impl Scan {
    /// The incomplete write, if there is one.
    pub(super) fn torn(&self) -> Option<Torn> {
        let torn = self.segments[self.tail..].iter().find(|segment| segment.written_end > segment.end)?;
        Some(Torn { file: segment_name(torn.number()), offset: torn.end, bytes: torn.written_end - torn.end })
    }
}

/// Reads all files, or what remains of them after a cut. `None` for a directory without a store.
pub(super) fn scan(
    files: &dyn Files,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
    cut: Option<&Cut>,
) -> Result<Option<Scan>, Fault> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    let mut inventory = Inventory::of(names);
    if inventory.is_empty() {
        return Ok(None);
    }
    match cut {
        Some(Cut::Snapshots { from }) => inventory.snapshots.retain(|revision| revision < from),
        Some(cut) => inventory.segments.retain(|number| cut.keeps_segment(*number)),
        None => {}
    }
    let total = total_bytes(files, &inventory);
    let mut scanner = Scanner { files, sink, progress, total, done: 0, cut: cut.copied() };
    scanner.run(&inventory).map(Some)
}

fn total_bytes(files: &dyn Files, inventory: &Inventory) -> u64 {
    let segments = inventory.segments.iter().map(|number| segment_name(*number));
    let snapshot = inventory.snapshots.last().map(|revision| snapshot_name(*revision));
    // Only for the progress bar; files that cannot be opened are reported when they are read.
    let size = |name: String| files.size(&name).unwrap_or(0);
    segments.chain(snapshot).map(size).sum()
}

struct Scanner<'a> {
    files: &'a dyn Files,
    sink: &'a mut dyn Sink,
    progress: &'a mut dyn FnMut(Progress),
    total: u64,
    done: u64,
    cut: Option<Cut>,
}

/// Position up to which the log has been read.
struct Position {
    /// Expected number of the next frame; `None` before the first one if a snapshot has replaced the beginning of the
    /// log.
    sequence: Option<u64>,
    revision: Revision,
    closed: bool,
    /// The next segment, if the last record read so far names it.
    continues: Option<u64>,
}

impl Scanner<'_> {
    fn run(&mut self, inventory: &Inventory) -> Result<Scan, Fault> {
        let recorded_end = self.recorded_end(inventory)?;
        let mut reports = Vec::new();
        let snapshot = match inventory.snapshots.last() {
            Some(revision) => Some(self.snapshot(*revision, &mut reports)?),
            None => {
                self.sink.begin(Revision::INITIAL);
                None
            }
        };
        let state_at = snapshot.map_or(Revision::INITIAL, |header| header.revision);
        let mut store = recorded_end.known().map(|end| end.store);
        if let Some(header) = &snapshot
            && *store.get_or_insert(header.store) != header.store
        {
            return Err(Damage::in_snapshot(header.revision, 0, "it belongs to another store").into());
        }
        let needed = self.needed_segments(inventory, snapshot.as_ref(), &recorded_end)?;
        let mut position = Position {
            sequence: if snapshot.is_none() { Some(0) } else { None },
            revision: state_at,
            closed: false,
            continues: None,
        };
        let mut segments: Vec<ScannedSegment> = Vec::new();
        for number in needed {
            let segment = Segment::open(self.files, number)?;
            if *store.get_or_insert(segment.header.store) != segment.header.store {
                return Err(Damage::unusable_segment(number, "it belongs to another store").into());
            }
            let scanned = self.segment(segment, state_at, &mut position, segments.last(), &mut reports)?;
            segments.push(scanned);
        }
        if position.revision < state_at {
            return Err(ends_before_snapshot(&segments, position.revision, state_at).into());
        }
        let Some(store) = store else {
            return Err(Error::Config("nothing would be left of the store".to_owned()).into());
        };
        let scan = Scan {
            store,
            revision: position.revision,
            next_sequence: position.sequence.unwrap_or(0),
            tail: tail(&segments, position.continues),
            segments,
            continues: position.continues,
            recorded_end,
            closed_cleanly: position.closed,
            files: reports,
        };
        match self.cut {
            // A repair restores the end of the file that it cuts, and records the new end of the log.
            Some(Cut::Log { segment, offset }) => {
                check_place(&scan, segment, offset)?;
                check_whole(&scan, |number| number != segment)?;
            }
            _ => {
                check_next(&scan)?;
                check_whole(&scan, |_| true)?;
                check_end(&scan)?;
            }
        }
        Ok(scan)
    }

    /// The recorded end. One that does not match the other files belongs to another store.
    fn recorded_end(&self, inventory: &Inventory) -> Result<RecordedEnd, Fault> {
        let recorded = end::read(self.files, inventory.end)?;
        let Some(end) = recorded.known() else { return Ok(recorded) };
        let segments = inventory.segments.iter().map(|number| {
            Segment::open(self.files, *number).is_ok_and(|segment| segment.header.store == end.store)
        });
        let snapshots = inventory.snapshots.iter().map(|revision| {
            self.snapshot_reader(*revision).is_ok_and(|reader| reader.header.store == end.store)
        });
        let nothing_else = inventory.segments.is_empty() && inventory.snapshots.is_empty();
        if nothing_else || snapshots.chain(segments).any(|agrees| agrees) {
            return Ok(recorded);
        }
        Ok(RecordedEnd::Damaged("it belongs to another store"))
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(Progress { done: self.done, total: self.total });
    }

    /// The segments that make up the state: without gaps, starting with the one that the snapshot names.
    fn needed_segments(
        &self,
        inventory: &Inventory,
        snapshot: Option<&SnapshotHeader>,
        recorded: &RecordedEnd,
    ) -> Result<Vec<u64>, Fault> {
        let first = match snapshot {
            Some(snapshot) => snapshot.segment,
            None if inventory.segments.is_empty() => return Err(nothing_left(recorded)),
            None => FIRST_SEGMENT,
        };
        if matches!(self.cut, Some(Cut::Log { segment, .. }) if segment < first) {
            return Err(Error::Config("a snapshot has replaced that part of the log".to_owned()).into());
        }
        let needed: Vec<u64> = inventory.segments.iter().copied().filter(|number| *number >= first).collect();
        let gap = (first..).zip(&needed).find(|(expected, found)| expected != *found);
        let missing = match gap {
            Some((expected, _)) => Some(expected),
            // A snapshot without a log is valid only after a repair, which creates a new log.
            None => (needed.is_empty() && !self.gives_up(first)).then_some(first),
        };
        match missing {
            Some(missing) => Err(Damage::unusable_segment(missing, "the file is missing").into()),
            None => Ok(needed),
        }
    }

    /// Returns true if the cut discards the whole segment.
    fn gives_up(&self, segment: u64) -> bool {
        self.cut.is_some_and(|cut| !cut.keeps_segment(segment))
    }

    fn snapshot_reader(&self, revision: Revision) -> Result<SnapshotReader<BufReader<FileInput>>, Fault> {
        let path = self.files.path(&snapshot_name(revision));
        let file =
            self.files.open(&snapshot_name(revision)).map_err(|source| io_error("open", &path, source))?;
        let input = BufReader::with_capacity(1 << 20, FileInput { file, offset: 0 });
        SnapshotReader::begin(input).map_err(|error| snapshot_fault(&path, revision, error))
    }

    fn snapshot(
        &mut self,
        revision: Revision,
        reports: &mut Vec<FileReport>,
    ) -> Result<SnapshotHeader, Fault> {
        let name = snapshot_name(revision);
        let path = self.files.path(&name);
        let mut reader = self.snapshot_reader(revision)?;
        if reader.header.revision != revision {
            let detail =
                format!("the file is the snapshot of revision {} under this name", reader.header.revision);
            return Err(Damage::in_snapshot(revision, 0, detail).into());
        }
        self.sink.begin(revision);
        let mut before = 0;
        while let Some(block) = reader.next_block().map_err(|error| snapshot_fault(&path, revision, error))? {
            block.iter().for_each(|parts| self.sink.entry(parts));
            self.advance(reader.offset() - before);
            before = reader.offset();
        }
        reports.push(FileReport {
            name,
            bytes: reader.offset(),
            frames: reader.entries(),
            first: None,
            last: Some(revision),
        });
        Ok(reader.header)
    }

    fn segment(
        &mut self,
        segment: Segment,
        state_at: Revision,
        position: &mut Position,
        before: Option<&ScannedSegment>,
        reports: &mut Vec<FileReport>,
    ) -> Result<ScannedSegment, Fault> {
        let number = segment.header.number;
        let path = self.files.path(&segment_name(number));
        let limit = self.limit(number);
        let mut frames = 0;
        let mut first = None;
        let mut reader = FrameReader::new(&segment);
        let stop = loop {
            if limit == Some(reader.offset()) {
                break NotAFrame::Blank;
            }
            match reader.next().map_err(|source| io_error("read", &path, source))? {
                Step::Stop(reason) => break reason,
                Step::Frame { header, payload, offset } => {
                    check_order(number, offset, &header, position, state_at, before)?;
                    first = first.or(Some(header.base.next()));
                    self.frame(number, offset, &header, payload, state_at, position)?;
                    frames += 1;
                }
            }
        };
        let mut written_end = reader.offset();
        if limit.is_none() {
            written_end = reader.written_end().map_err(|source| io_error("read", &path, source))?;
            if written_end > reader.offset() {
                self.check_nothing_behind(number, stop, &reader)?;
            }
        } else if limit != Some(reader.offset()) {
            return Err(
                Damage::in_segment(number, reader.offset(), "no frame ends at the place to cut at").into()
            );
        }
        let end = reader.offset();
        drop(reader);
        self.advance(segment.header.size);
        reports.push(FileReport {
            name: segment_name(number),
            bytes: segment.header.size,
            frames,
            first: first.filter(|first| *first <= position.revision),
            last: (frames > 0).then_some(position.revision),
        });
        Ok(ScannedSegment { segment, frames, last: position.revision, end, written_end })
    }

    /// Offset at which the cut ends this segment.
    fn limit(&self, number: u64) -> Option<u64> {
        match self.cut {
            Some(Cut::Log { segment, offset }) if segment == number => Some(offset),
            _ => None,
        }
    }

    fn frame(
        &mut self,
        number: u64,
        offset: u64,
        header: &FrameHeader,
        payload: &[u8],
        state_at: Revision,
        position: &mut Position,
    ) -> Result<(), Fault> {
        let nonsense =
            || Damage::in_segment(number, offset, "a frame's checksum matches but its content is invalid");
        let records = frame::records(header, payload).map_err(|_| nonsense())?;
        position.closed = false;
        position.continues = None;
        for record in records {
            match record {
                Record::Commit(changes) => {
                    position.revision = position.revision.next();
                    let is_in_snapshot = position.revision <= state_at;
                    if !is_in_snapshot && !self.sink.commit(&changes, header.at) {
                        return Err(nonsense().into());
                    }
                }
                Record::Compacted { oldest } => self.sink.compacted(oldest),
                Record::Closed => position.closed = true,
                Record::Continues { segment } => position.continues = Some(segment),
            }
        }
        position.sequence = Some(header.sequence + 1);
        Ok(())
    }

    fn check_nothing_behind(
        &self,
        number: u64,
        stop: NotAFrame,
        reader: &FrameReader<'_>,
    ) -> Result<(), Fault> {
        let path = self.files.path(&segment_name(number));
        let behind = reader.any_frame_behind().map_err(|source| io_error("read", &path, source))?;
        let Some(behind) = behind else { return Ok(()) };
        let what = match stop {
            NotAFrame::Blank => "a frame has been overwritten with zeros",
            NotAFrame::Broken(what) => what,
        };
        let detail = format!("{what}, and a whole frame follows at offset {behind}");
        Err(Damage::in_segment(number, reader.offset(), detail).into())
    }
}

/// Checks that a frame follows its predecessor, which may be in an earlier segment.
fn check_order(
    number: u64,
    offset: u64,
    header: &FrameHeader,
    position: &mut Position,
    state_at: Revision,
    before: Option<&ScannedSegment>,
) -> Result<(), Fault> {
    let Some(expected) = position.sequence else {
        // The first frame after a snapshot may begin before the snapshot's revision, but not after it.
        if header.base > state_at {
            let detail = format!("revisions {} to {} are missing", state_at.next(), header.base);
            let (number, offset) = before.map_or((number, offset), |before| (before.number(), before.end));
            return Err(Damage::in_segment(number, offset, detail).into());
        }
        position.revision = header.base;
        return Ok(());
    };
    if header.sequence == expected && header.base == position.revision {
        return Ok(());
    }
    let name = segment_name(number);
    let mut detail = format!("frame {expected} is missing, frame {} follows in {name}", header.sequence);
    if offset != HEADER_BYTES {
        return Err(Damage::in_segment(number, offset, detail).into());
    }
    // The gap is at the end of the last readable frame.
    let Some(before) = before else {
        let detail = format!("{detail}: the files before it are missing");
        return Err(Damage { cut: None, ..Damage::in_segment(number, offset, detail) }.into());
    };
    if before.segment.is_cut_off() {
        detail = format!("the file has been cut off: {detail}");
    }
    Err(Damage::in_segment(before.number(), before.end, detail).into())
}

/// Index of the segment in which the log continues: the one with the last frame, or the one that this frame names.
fn tail(segments: &[ScannedSegment], continues: Option<u64>) -> usize {
    let written = segments.iter().rposition(|segment| segment.frames > 0).unwrap_or(0);
    let named = continues.and_then(|next| segments.iter().position(|segment| segment.number() == next));
    named.map_or(written, |named| named.max(written))
}

fn nothing_left(recorded: &RecordedEnd) -> Fault {
    let detail = match recorded.known() {
        Some(end) => format!("the file is missing: the log had reached revision {}", end.revision),
        None => "the file is missing".to_owned(),
    };
    Damage { cut: None, ..Damage::unusable_segment(FIRST_SEGMENT, detail) }.into()
}

/// The remaining log ends before the snapshot's revision: only the snapshot remains.
fn ends_before_snapshot(segments: &[ScannedSegment], revision: Revision, state_at: Revision) -> Damage {
    let detail = format!("the log ends at revision {revision}, before the snapshot of revision {state_at}");
    let (first, last) = (&segments[0], &segments[segments.len() - 1]);
    let cut = Some(Cut::Log { segment: first.number(), offset: 0 });
    Damage { cut, ..Damage::in_segment(last.number(), last.end, detail) }
}

/// Checks that the position of a cut is in the log, or directly after it.
fn check_place(scan: &Scan, segment: u64, offset: u64) -> Result<()> {
    let in_log = match offset {
        0 => scan.segments.last().is_none_or(|last| last.number() + 1 == segment),
        _ => scan.segments.last().is_some_and(|last| last.number() == segment),
    };
    if in_log { Ok(()) } else { Err(Error::Config("the log has no such position".to_owned())) }
}

/// Checks that the next segment exists, if the last record names it.
fn check_next(scan: &Scan) -> Result<(), Damage> {
    let (last, tail) = (&scan.segments[scan.segments.len() - 1], &scan.segments[scan.tail]);
    if let Some(next) = scan.continues.filter(|next| *next > last.number()) {
        let detail =
            format!("the file is missing: {} names it as the next segment", segment_name(tail.number()));
        return Err(Damage {
            file: segment_name(next),
            ..Damage::unusable_segment(last.number() + 1, detail)
        });
    }
    Ok(())
}

/// Checks that segments in which the log continues have not been shortened. For those before them, the frames that
/// follow prove that nothing is missing.
fn check_whole(scan: &Scan, needed: impl Fn(u64) -> bool) -> Result<(), Damage> {
    let mut behind = scan.segments[scan.tail..].iter();
    let Some(short) = behind.find(|segment| segment.segment.is_cut_off() && needed(segment.number())) else {
        return Ok(());
    };
    let detail = format!("the file has been cut off at offset {}", short.segment.len);
    Err(Damage::in_segment(short.number(), short.end, detail))
}

/// Checks that the log reaches its recorded end.
fn check_end(scan: &Scan) -> Result<(), Damage> {
    let (last, tail) = (&scan.segments[scan.segments.len() - 1], &scan.segments[scan.tail]);
    let end = match scan.recorded_end {
        RecordedEnd::Known(end) => end,
        RecordedEnd::Damaged(detail) => return Err(no_end(tail, detail)),
        RecordedEnd::Absent => {
            let recorded = |segment: &ScannedSegment| {
                segment.segment.header.version >= LOG_VERSION && segment.frames > 0
            };
            return match scan.segments.iter().any(recorded) {
                true => Err(no_end(tail, "the file is missing")),
                false => Ok(()),
            };
        }
    };
    if last.number() < end.segment {
        let detail = format!("the file is missing: the log had reached revision {}", end.revision);
        let missing = last.number() + 1;
        return Err(Damage { file: segment_name(end.segment), ..Damage::unusable_segment(missing, detail) });
    }
    if scan.next_sequence < end.sequence {
        let detail = format!(
            "the log ends here at revision {}: it had reached revision {} when the store was last closed",
            scan.revision, end.revision
        );
        return Err(Damage::in_segment(tail.number(), tail.end, detail));
    }
    Ok(())
}

/// The recorded end is missing, so the log may have lost its last files. The repair keeps the whole log.
fn no_end(tail: &ScannedSegment, detail: &str) -> Damage {
    let detail = format!("{detail}, so that the end of the log cannot be verified");
    Damage { file: END_NAME.to_owned(), offset: 0, ..Damage::in_segment(tail.number(), tail.end, detail) }
}

fn snapshot_fault(path: &Path, revision: Revision, error: SnapshotError) -> Fault {
    match error {
        SnapshotError::Damaged { offset, detail } => Damage::in_snapshot(revision, offset, detail).into(),
        SnapshotError::Header(BadHeader::Damaged(detail)) => Damage::in_snapshot(revision, 0, detail).into(),
        other => snapshot_error(path, other).into(),
    }
}

/// The store's error for an invalid file in snapshot format.
pub(super) fn snapshot_error(path: &Path, error: SnapshotError) -> Error {
    let damaged = |offset, detail: &str| Error::Damaged {
        path: path.to_owned(),
        offset,
        detail: detail.to_owned(),
        way_out: Box::new(WayOut::EarlierCopy),
    };
    match error {
        SnapshotError::Io(source) => io_error("read", path, source),
        SnapshotError::Damaged { offset, detail } => damaged(offset, detail),
        SnapshotError::Header(BadHeader::Damaged(detail)) => damaged(0, detail),
        SnapshotError::Header(BadHeader::UnknownVersion(found)) => {
            Error::UnknownFormat { path: path.to_owned(), found, supported: VERSION }
        }
    }
}

struct FileInput {
    file: Arc<dyn File>,
    offset: u64,
}

impl Read for FileInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
