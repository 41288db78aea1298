//! Reading a store's files: for opening it, and for checking it without touching anything.
//!
//! What the log promised is told by its sequence: frames count without gaps from segment to
//! segment. Bytes behind the last frame that are no frame are a write cut short, which
//! nobody was told of. A frame found behind unreadable bytes, or a count that skips, means
//! that something durable is gone; then nothing is opened.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use coracle_base::Timestamp;

use super::files::{File, Files, io_error};
use super::format::{BadHeader, Inventory, StoreId, VERSION, segment_name, snapshot_name};
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
    pub(super) segments: Vec<ScannedSegment>,
    /// Which of `segments` has the last frame; those behind it have none.
    pub(super) tail: usize,
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

impl Scan {
    /// A write that was cut short, if there is one.
    pub(super) fn torn(&self) -> Option<Torn> {
        let torn = self.segments[self.tail..].iter().find(|segment| segment.written_end > segment.end)?;
        let file = segment_name(torn.segment.header.number);
        Some(Torn { file, offset: torn.end, bytes: torn.written_end - torn.end })
    }
}

/// Reads everything there is. `None` for a directory without a store.
pub(super) fn scan(
    files: &dyn Files,
    sink: &mut dyn Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Scan>> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    let inventory = Inventory::of(names);
    if inventory.is_empty() {
        return Ok(None);
    }
    let mut scanner = Scanner { files, sink, progress, total: total_bytes(files, &inventory), done: 0 };
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
}

/// How far the log has been read.
struct Position {
    /// The count the next frame must carry; `None` before the first one of a log whose
    /// beginning a snapshot has replaced.
    sequence: Option<u64>,
    revision: Revision,
    closed: bool,
}

impl Scanner<'_> {
    fn run(&mut self, inventory: &Inventory) -> Result<Scan> {
        let mut reports = Vec::new();
        let snapshot = match inventory.snapshots.last() {
            Some(revision) => Some(self.snapshot(*revision, &mut reports)?),
            None => {
                self.sink.begin(Revision::INITIAL);
                None
            }
        };
        let state_at = snapshot.map_or(Revision::INITIAL, |header| header.revision);
        let needed = self.needed_segments(inventory, snapshot.map(|header| header.segment))?;
        let mut position = Position {
            sequence: if snapshot.is_none() { Some(0) } else { None },
            revision: state_at,
            closed: false,
        };
        let mut segments: Vec<ScannedSegment> = Vec::new();
        for number in needed {
            let segment = Segment::open(self.files, number)?;
            let store = snapshot.map_or(segments.first().map(|first| first.segment.header.store), |header| {
                Some(header.store)
            });
            if store.is_some_and(|store| store != segment.header.store) {
                return Err(self.damaged(&segment_name(number), 0, "it belongs to another store"));
            }
            let scanned = self.segment(segment, state_at, &mut position, segments.last(), &mut reports)?;
            segments.push(scanned);
        }
        if position.revision < state_at {
            let end = &segments[segments.len() - 1];
            let detail = format!(
                "the log ends at revision {}, before the snapshot of revision {state_at}",
                position.revision
            );
            return Err(self.damaged(&segment_name(end.segment.header.number), end.end, detail));
        }
        let tail = segments.iter().rposition(|segment| segment.frames > 0).unwrap_or(0);
        Ok(Scan {
            store: segments[0].segment.header.store,
            revision: position.revision,
            next_sequence: position.sequence.unwrap_or(0),
            segments,
            tail,
            closed_cleanly: position.closed,
            files: reports,
        })
    }

    fn damaged(&self, name: &str, offset: u64, detail: impl Into<String>) -> Error {
        Error::Damaged { path: self.files.path(name), offset, detail: detail.into() }
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        (self.progress)(Progress { done: self.done, total: self.total });
    }

    /// The segments the state is made of: without gaps, from the one the snapshot names on.
    fn needed_segments(&self, inventory: &Inventory, from: Option<u64>) -> Result<Vec<u64>> {
        let first = from.or(inventory.segments.first().copied()).unwrap_or(1);
        let needed: Vec<u64> = inventory.segments.iter().copied().filter(|number| *number >= first).collect();
        let expected = first..first + needed.len().max(1) as u64;
        match expected.clone().find(|number| !needed.contains(number)) {
            Some(missing) => Err(self.damaged(
                &segment_name(missing),
                0,
                "the file is missing; restore it, or import an export",
            )),
            None => Ok(needed),
        }
    }

    fn snapshot(
        &mut self,
        revision: Revision,
        reports: &mut Vec<FileReport>,
    ) -> Result<super::format::SnapshotHeader> {
        let name = snapshot_name(revision);
        let path = self.files.path(&name);
        let file = self.files.open(&name).map_err(|source| io_error("open", &path, source))?;
        let input = BufReader::with_capacity(1 << 20, FileInput { file, offset: 0 });
        let mut reader = SnapshotReader::begin(input).map_err(|error| snapshot_error(&path, error))?;
        if reader.header.revision != revision {
            return Err(self.damaged(&name, 0, "it was another snapshot and has been renamed"));
        }
        self.sink.begin(revision);
        let mut before = 0;
        while let Some(block) = reader.next_block().map_err(|error| snapshot_error(&path, error))? {
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
    ) -> Result<ScannedSegment> {
        let name = segment_name(segment.header.number);
        let path = self.files.path(&name);
        let mut frames = 0;
        let mut first = None;
        let mut reader = FrameReader::new(&segment);
        let stop = loop {
            match reader.next().map_err(|source| io_error("read", &path, source))? {
                Step::Stop(reason) => break reason,
                Step::Frame { header, payload, offset } => {
                    self.check_order(&name, offset, &header, position, state_at, before)?;
                    first = first.or(Some(header.base.next()));
                    self.frame(&name, offset, &header, payload, state_at, position)?;
                    frames += 1;
                }
            }
        };
        let written_end = reader.written_end().map_err(|source| io_error("read", &path, source))?;
        if written_end > reader.offset() {
            self.check_nothing_behind(&name, stop, &reader)?;
        }
        let end = reader.offset();
        drop(reader);
        self.advance(segment.header.size);
        reports.push(FileReport {
            name,
            bytes: segment.header.size,
            frames,
            first: first.filter(|first| *first <= position.revision),
            last: (frames > 0).then_some(position.revision),
        });
        Ok(ScannedSegment { segment, frames, last: position.revision, end, written_end })
    }

    /// A frame must follow the one before it, wherever that was.
    fn check_order(
        &self,
        name: &str,
        offset: u64,
        header: &FrameHeader,
        position: &mut Position,
        state_at: Revision,
        before: Option<&ScannedSegment>,
    ) -> Result<()> {
        let Some(expected) = position.sequence else {
            // The first frame after a snapshot may begin before it, but not after it.
            if header.base > state_at {
                return Err(self.damaged(
                    name,
                    offset,
                    format!("revisions {} to {} are missing", state_at.next(), header.base),
                ));
            }
            position.revision = header.base;
            return Ok(());
        };
        if header.sequence == expected && header.base == position.revision {
            return Ok(());
        }
        let detail = format!("frame {expected} is missing, frame {} follows in {name}", header.sequence);
        // The gap is where the last readable frame ended.
        match before.filter(|_| offset == super::format::HEADER_BYTES) {
            Some(before) => {
                Err(self.damaged(&segment_name(before.segment.header.number), before.end, detail))
            }
            None => Err(self.damaged(name, offset, detail)),
        }
    }

    fn frame(
        &mut self,
        name: &str,
        offset: u64,
        header: &FrameHeader,
        payload: &[u8],
        state_at: Revision,
        position: &mut Position,
    ) -> Result<()> {
        let nonsense = "a frame's checksum matches but its contents make no sense";
        let records = frame::records(header, payload).map_err(|_| self.damaged(name, offset, nonsense))?;
        position.closed = false;
        for record in records {
            match record {
                Record::Commit(changes) => {
                    position.revision = position.revision.next();
                    let known = position.revision <= state_at;
                    if !known && !self.sink.commit(&changes, header.at) {
                        return Err(self.damaged(name, offset, nonsense));
                    }
                }
                Record::Compacted { oldest } => self.sink.compacted(oldest),
                Record::Closed => position.closed = true,
            }
        }
        position.sequence = Some(header.sequence + 1);
        Ok(())
    }

    fn check_nothing_behind(&self, name: &str, stop: NotAFrame, reader: &FrameReader<'_>) -> Result<()> {
        let offset = reader.offset();
        let behind =
            reader.any_frame_behind().map_err(|source| io_error("read", &self.files.path(name), source))?;
        let Some(behind) = behind else { return Ok(()) };
        let what = match stop {
            NotAFrame::Blank => "a frame has been blanked out",
            NotAFrame::Broken(what) => what,
        };
        Err(self.damaged(name, offset, format!("{what}, and a whole frame follows at offset {behind}")))
    }
}

/// The store's error for what is wrong with a snapshot.
pub(super) fn snapshot_error(path: &Path, error: SnapshotError) -> Error {
    let damaged = |offset, detail: &str| Error::Damaged {
        path: path.to_owned(),
        offset,
        detail: format!("{detail}; only an earlier copy or an export can replace it"),
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
