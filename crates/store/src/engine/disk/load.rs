//! Opens a store: builds index, history and log from its files.

use std::sync::Arc;

use coracle_base::Timestamp;

use super::Options;
use super::end;
use super::files::{Files, io_error};
use super::format::{Inventory, LOG_VERSION, LogEnd, segment_name, snapshot_name};
use super::log::{Log, LogStart, Sealed};
use super::scan::{Scan, ScannedSegment, Sink, scan};
use super::segment::blank;
use crate::entry::EntryParts;
use crate::error::Result;
use crate::history::History;
use crate::index::{Change, Index};
use crate::revision::Revision;

/// A store that is ready to serve.
pub(super) struct Loaded {
    pub(super) index: Index,
    pub(super) history: History,
    pub(super) log: LogStart,
}

pub(super) fn load(files: &Arc<dyn Files>, options: &Options) -> Result<Loaded> {
    let files = &**files;
    let mut loader = Loader::default();
    let scanned = scan(files, &mut loader, &mut |_| {}, None).map_err(|fault| fault.into_error(files))?;
    let Some(scan) = scanned else {
        remove_unfinished(files)?;
        let log = Log::create(files, &mut options.rng.clone(), options.segment_bytes)?;
        return Ok(Loaded { index: loader.index, history: loader.history, log });
    };
    if let Some(torn) = scan.torn() {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "removing an incomplete write, which was never acknowledged"
        );
    }
    remove_torn(files, &scan)?;
    remove_unfinished(files)?;
    remove_superfluous(files, &scan)?;
    record_end(files, &scan)?;
    Ok(Loaded { index: loader.index, history: loader.history, log: start(scan) })
}

/// Builds the state from the files' contents.
pub(super) struct Loader {
    pub(super) index: Index,
    pub(super) history: History,
}

impl Default for Loader {
    fn default() -> Self {
        let initial = Revision::INITIAL;
        Self { index: Index::empty(initial), history: History::starting_at(initial) }
    }
}

impl Sink for Loader {
    fn begin(&mut self, revision: Revision) {
        if revision != Revision::INITIAL {
            self.index = Index::empty(revision);
            self.history = History::starting_at(revision.next());
        }
    }

    fn entry(&mut self, parts: &EntryParts) {
        self.index.restore(parts);
    }

    fn commit(&mut self, changes: &[Change], at: Timestamp) -> bool {
        let (commit, _) = self.index.apply(changes, at);
        commit.is_some_and(|commit| {
            self.history.push(&[commit]);
            true
        })
    }

    fn compacted(&mut self, oldest: Revision) {
        // Immediately, so that reading a long log needs no more memory than writing it.
        let dead = self.history.forget(oldest);
        dead.iter().for_each(|tombstone| self.index.purge(tombstone));
    }
}

fn start(scan: Scan) -> LogStart {
    let mut segments = scan.segments.into_iter();
    let mut sealed: Vec<_> = segments.by_ref().take(scan.tail).map(|scanned| seal(&scanned)).collect();
    let tail = segments.next().expect("a scan has at least the segment of its tail");
    // Empty segments of an older format are not written to, but keep their numbers.
    let (old, spares): (Vec<_>, Vec<_>) =
        segments.partition(|scanned| scanned.segment.header.version < LOG_VERSION);
    sealed.extend(old.iter().map(seal));
    LogStart {
        store: scan.store,
        active: tail.segment,
        offset: tail.end,
        spares: spares.into_iter().map(|scanned| scanned.segment).collect(),
        sealed,
        sequence: scan.next_sequence,
        revision: scan.revision,
    }
}

fn seal(scanned: &ScannedSegment) -> Sealed {
    let header = &scanned.segment.header;
    Sealed { number: header.number, last: scanned.last, bytes: header.size }
}

/// Records the end of a log without such a record: of an older format, or one whose creation was interrupted. Must
/// happen before anything is written in the current format, which requires the record.
fn record_end(files: &dyn Files, scan: &Scan) -> Result<()> {
    if scan.recorded_end.known().is_some() {
        return Ok(());
    }
    let segment = scan.segments[scan.tail].segment.header.number;
    let (store, sequence, revision) = (scan.store, scan.next_sequence, scan.revision);
    end::write(files, &LogEnd { store, segment, sequence, revision })
}

/// Overwrites an incomplete write with zeros, so that the space can be used.
fn remove_torn(files: &dyn Files, scan: &Scan) -> Result<()> {
    for scanned in &scan.segments[scan.tail..] {
        if scanned.written_end > scanned.end {
            let name = segment_name(scanned.segment.header.number);
            blank(&scanned.segment, scanned.end, scanned.written_end)
                .map_err(|source| io_error("write", &files.path(&name), source))?;
        }
    }
    Ok(())
}

fn inventory(files: &dyn Files) -> Result<Inventory> {
    let names = files.list().map_err(|source| io_error("list", &files.path(""), source))?;
    Ok(Inventory::of(names))
}

fn remove_unfinished(files: &dyn Files) -> Result<()> {
    for name in inventory(files)?.unfinished {
        files.remove(&name).map_err(|source| io_error("remove", &files.path(&name), source))?;
    }
    Ok(())
}

/// Removes files that a snapshot has replaced, in case the process ended before it could.
fn remove_superfluous(files: &dyn Files, scan: &Scan) -> Result<()> {
    let inventory = inventory(files)?;
    let first = scan.segments[0].segment.header.number;
    let segments =
        inventory.segments.iter().filter(|number| **number < first).map(|number| segment_name(*number));
    let newest = inventory.snapshots.last().copied();
    let older = inventory.snapshots.iter().filter(|revision| Some(**revision) < newest);
    for name in segments.chain(older.map(|revision| snapshot_name(*revision))) {
        files.remove(&name).map_err(|source| io_error("remove", &files.path(&name), source))?;
    }
    Ok(())
}
