//! Reading a store's files: for opening it, and for checking it without touching anything.
//!
//! What the log promised is told by its sequence: frames count without gaps from segment to
//! segment. Bytes behind the last frame that are no frame are a write cut short, which
//! nobody was told of. A frame found behind unreadable bytes, a count that skips, or a log that
//! ends before its recorded end means that something durable is gone; then nothing is opened.
//!
//! The files can also be read as they would be after a repair (see [`Cut`]), which is how the
//! way out of damage is found.

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

/// Receives what the files contain, in order.
pub(super) trait Sink {
    /// The files begin with the state after this revision.
    fn begin(&mut self, revision: Revision);
    fn entry(&mut self, parts: &EntryParts);
    /// A commit that makes the next revision. False if it cannot be one.
    fn commit(&mut self, changes: &[Change], at: Timestamp) -> bool;
    fn compacted(&mut self, oldest: Revision);
}

/// What was found.
pub(super) struct Scan {
    pub(super) store: StoreId,
    pub(super) revision: Revision,
    pub(super) next_sequence: u64,
    /// Empty only for a cut that leaves a snapshot and no log.
    pub(super) segments: Vec<ScannedSegment>,
    /// Which of `segments` the log goes on in; those behind it have no frame.
    pub(super) tail: usize,
    /// The segment that the last record names as the next, if that is the last record.
    pub(super) continues: Option<u64>,
    pub(super) recorded_end: RecordedEnd,
    pub(super) closed_cleanly: bool,
    pub(super) files: Vec<FileReport>,
}

pub(super) struct ScannedSegment {
    pub(super) segment: Segment,
    pub(super) frames: u64,
    /// The store's revision at its end.
    pub(super) last: Revision,
    /// Where its frames end.
    pub(super) end: u64,
    /// Where whatever was written behind them ends.
    pub(super) written_end: u64,
}

impl ScannedSegment {
    fn number(&self) -> u64 {
        self.segment.header.number
    }
}

impl Scan {
    /// A write that was cut short, if there is one.
    pub(super) fn torn(&self) -> Option<Torn> {
        let torn = self.segments[self.tail..].iter().find(|segment| segment.written_end > segment.end)?;
        Some(Torn { file: segment_name(torn.number()), offset: torn.end, bytes: torn.written_end - torn.end })
    }
}

/// Reads everything there is, or what a cut would leave of it. `None` for a directory without
/// a store.
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
    // Only for the progress bar; what cannot be opened is reported when it is read.
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

/// How far the log has been read.
struct Position {
    /// The count the next frame must carry; `None` before the first one of a log whose
    /// beginning a snapshot has replaced.
    sequence: Option<u64>,
    revision: Revision,
    closed: bool,
    /// The last record so far says that the log goes on in this segment.
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
            // A repair restores the end of the file it cuts, and records where the log ends now.
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

    /// The recorded end. One that no other file agrees with belongs to another store.
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

    /// The segments the state is made of: without gaps, from the one the snapshot names on.
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
            // Without any log a snapshot is a store only after a repair, which makes a new one.
            None => (needed.is_empty() && !self.gives_up(first)).then_some(first),
        };
        match missing {
            Some(missing) => Err(Damage::unusable_segment(missing, "the file is missing").into()),
            None => Ok(needed),
        }
    }

    /// Whether the cut gives up this segment altogether.
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

    /// Where the cut ends this segment.
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
        let nonsense = || {
            Damage::in_segment(number, offset, "a frame's checksum matches but its contents make no sense")
        };
        let records = frame::records(header, payload).map_err(|_| nonsense())?;
        position.closed = false;
        position.continues = None;
        for record in records {
            match record {
                Record::Commit(changes) => {
                    position.revision = position.revision.next();
                    let known = position.revision <= state_at;
                    if !known && !self.sink.commit(&changes, header.at) {
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
            NotAFrame::Blank => "a frame has been blanked out",
            NotAFrame::Broken(what) => what,
        };
        let detail = format!("{what}, and a whole frame follows at offset {behind}");
        Err(Damage::in_segment(number, reader.offset(), detail).into())
    }
}

/// A frame must follow the one before it, wherever that was.
fn check_order(
    number: u64,
    offset: u64,
    header: &FrameHeader,
    position: &mut Position,
    state_at: Revision,
    before: Option<&ScannedSegment>,
) -> Result<(), Fault> {
    let Some(expected) = position.sequence else {
        // The first frame after a snapshot may begin before it, but not after it.
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
    // The gap is where the last readable frame ended.
    let Some(before) = before else {
        let detail = format!("{detail}: the files before it are missing");
        return Err(Damage { cut: None, ..Damage::in_segment(number, offset, detail) }.into());
    };
    if before.segment.is_cut_off() {
        detail = format!("the file has been cut off: {detail}");
    }
    Err(Damage::in_segment(before.number(), before.end, detail).into())
}

/// Where the log goes on: in the segment that has the last frame, or that this frame names.
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

/// The log that is left cannot even lead to the snapshot: only the snapshot itself is left.
fn ends_before_snapshot(segments: &[ScannedSegment], revision: Revision, state_at: Revision) -> Damage {
    let detail = format!("the log ends at revision {revision}, before the snapshot of revision {state_at}");
    let (first, last) = (&segments[0], &segments[segments.len() - 1]);
    let cut = Some(Cut::Log { segment: first.number(), offset: 0 });
    Damage { cut, ..Damage::in_segment(last.number(), last.end, detail) }
}

/// The place of a cut must be in the log, or right behind it.
fn check_place(scan: &Scan, segment: u64, offset: u64) -> Result<()> {
    let in_log = match offset {
        0 => scan.segments.last().is_none_or(|last| last.number() + 1 == segment),
        _ => scan.segments.last().is_some_and(|last| last.number() == segment),
    };
    if in_log { Ok(()) } else { Err(Error::Config("the log has no such place".to_owned())) }
}

/// The segment that the last record names as the next must be there.
fn check_next(scan: &Scan) -> Result<(), Damage> {
    let (last, tail) = (&scan.segments[scan.segments.len() - 1], &scan.segments[scan.tail]);
    if let Some(next) = scan.continues.filter(|next| *next > last.number()) {
        let detail =
            format!("the file is missing: {} says that the log goes on in it", segment_name(tail.number()));
        return Err(Damage {
            file: segment_name(next),
            ..Damage::unusable_segment(last.number() + 1, detail)
        });
    }
    Ok(())
}

/// A segment that the log goes on in must not have lost its end. For those before it, the
/// frames that follow prove that nothing was lost.
fn check_whole(scan: &Scan, needed: impl Fn(u64) -> bool) -> Result<(), Damage> {
    let mut behind = scan.segments[scan.tail..].iter();
    let Some(short) = behind.find(|segment| segment.segment.is_cut_off() && needed(segment.number())) else {
        return Ok(());
    };
    let detail = format!("the file has been cut off at offset {}", short.segment.len);
    Err(Damage::in_segment(short.number(), short.end, detail))
}

/// The log must reach as far as it is known to have reached.
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

/// The recorded end is gone: the log may have lost its last files. The repair keeps all of it.
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

/// The store's error for what is wrong with a file in the form of a snapshot.
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
