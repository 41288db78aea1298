//! The write side of the log: appends frames to the active segment, and creates the next segment ahead.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use coracle_base::{Rng, Timestamp};

use super::end;
use super::files::{Files, io_error};
use super::format::{FIRST_SEGMENT, HEADER_BYTES, LOG_VERSION, LogEnd, StoreId, segment_name};
use super::frame::{CONTINUES_BYTES, FrameBuilder};
use super::record::Record;
use super::segment::{Segment, SegmentPlan};
use crate::error::{Error, Result};
use crate::revision::Revision;

/// Size of a new store's first segment. Small, so that a short-lived cluster starts fast and costs little; each
/// following one is larger, up to [`super::Options::segment_bytes`].
pub(super) const FIRST_SEGMENT_BYTES: u64 = 256 << 10;
const SEGMENT_GROWTH: u64 = 4;

/// A full segment, which no longer changes.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) number: u64,
    /// Revision of the store at its end.
    pub(super) last: Revision,
    pub(super) bytes: u64,
}

/// Sealed segments, shared with the keeper, which removes those that a snapshot has replaced.
#[derive(Default)]
pub(super) struct SealedList(Mutex<Vec<Sealed>>);

impl SealedList {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Sealed>> {
        // Pushes and removals are single steps, so a poisoned lock guards valid data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position from which to write: found by recovery, or of a new log.
pub(super) struct LogStart {
    pub(super) store: StoreId,
    pub(super) active: Segment,
    pub(super) offset: u64,
    /// Empty segments after the active one.
    pub(super) spares: Vec<Segment>,
    pub(super) sealed: Vec<Sealed>,
    pub(super) sequence: u64,
    pub(super) revision: Revision,
}

pub(super) struct Log {
    files: Arc<dyn Files>,
    store: StoreId,
    segment_bytes: u64,
    rng: Rng,
    active: Segment,
    offset: u64,
    /// In ascending order of numbers; the last one may still be being created.
    spares: Vec<Segment>,
    making: Option<JoinHandle<Result<Segment>>>,
    sealed: Arc<SealedList>,
    sequence: u64,
    /// The revision at the end of the durable log.
    revision: Revision,
}

impl Log {
    /// Creates the first segment of a new store.
    pub(super) fn create(files: &dyn Files, rng: &mut Rng, segment_bytes: u64) -> Result<LogStart> {
        let store = StoreId::random(rng);
        let plan = SegmentPlan {
            store,
            number: FIRST_SEGMENT,
            salt: rng.u64(),
            size: FIRST_SEGMENT_BYTES.min(segment_bytes),
        };
        let active = Segment::create(files, plan)?;
        end::write(
            files,
            &LogEnd { store, segment: FIRST_SEGMENT, sequence: 0, revision: Revision::INITIAL },
        )?;
        Ok(LogStart {
            store,
            active,
            offset: HEADER_BYTES,
            spares: Vec::new(),
            sealed: Vec::new(),
            sequence: 0,
            revision: Revision::INITIAL,
        })
    }

    pub(super) fn new(files: Arc<dyn Files>, start: LogStart, rng: Rng, segment_bytes: u64) -> Self {
        Self {
            files,
            store: start.store,
            segment_bytes,
            rng,
            active: start.active,
            offset: start.offset,
            spares: start.spares,
            making: None,
            sealed: Arc::new(SealedList(Mutex::new(start.sealed))),
            sequence: start.sequence,
            revision: start.revision,
        }
    }

    pub(super) fn sealed(&self) -> Arc<SealedList> {
        self.sealed.clone()
    }

    pub(super) fn store(&self) -> StoreId {
        self.store
    }

    /// Writes a frame and syncs it. After [`Error::DiskFull`] nothing has changed and the call may be repeated; after
    /// any other error the state on disk is unknown.
    pub(super) fn append(&mut self, frame: &mut FrameBuilder, last: Revision, at: Timestamp) -> Result<()> {
        let len = frame.total_len();
        let full = self.offset + len + CONTINUES_BYTES > self.active.header.size;
        // Older programs do not understand the current format.
        if full || self.active.header.version < LOG_VERSION {
            self.roll(len, at)?;
        }
        // Not earlier, because the checksum depends on the segment.
        self.write(frame, at)?;
        self.revision = last;
        self.prepare_ahead();
        Ok(())
    }

    /// Writes a frame that fits into the active segment, and syncs it.
    fn write(&mut self, frame: &mut FrameBuilder, at: Timestamp) -> Result<()> {
        let bytes = frame.finish(self.active.header.salt, self.sequence, self.revision, at);
        let name = segment_name(self.active.header.number);
        self.active
            .file
            .write_all_at(bytes, self.offset)
            .map_err(|source| io_error("write", &self.files.path(&name), source))?;
        self.active.file.sync().map_err(|source| self.sync_error(&name, source))?;
        self.offset += bytes.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Never reported as a full disk: a failed sync cannot be retried.
    fn sync_error(&self, name: &str, source: io::Error) -> Error {
        Error::Io { operation: "sync", path: self.files.path(name), source: Arc::new(source) }
    }

    /// Creates the next segment if it does not exist. Fails while the disk is full.
    pub(super) fn make_room(&mut self) -> Result<()> {
        if self.spares.is_empty() {
            let next = self.next_segment(0)?;
            self.spares.push(next);
        }
        Ok(())
    }

    /// Switches to the next segment, which has space for `len` bytes.
    fn roll(&mut self, len: u64, at: Timestamp) -> Result<()> {
        let next = loop {
            match self.next_segment(len)? {
                next if next.header.size >= HEADER_BYTES + len + CONTINUES_BYTES => break next,
                // Too small for this frame: it stays in the log as an empty segment.
                small => self.seal(&small),
            }
        };
        if let Err(error) = self.name_next(next.header.number, at) {
            self.spares.insert(0, next);
            return Err(error);
        }
        let full = std::mem::replace(&mut self.active, next);
        self.seal(&full);
        self.offset = HEADER_BYTES;
        Ok(())
    }

    /// Writes the number of the next segment into the full one. The next one is durable already, so from now on its
    /// loss is detected, even if it is empty.
    fn name_next(&mut self, segment: u64, at: Timestamp) -> Result<()> {
        if self.active.header.version < LOG_VERSION {
            return Ok(());
        }
        let mut frame = FrameBuilder::default();
        frame.clear();
        frame.push(&Record::Continues { segment });
        self.write(&mut frame, at)
    }

    /// Records the position that the log has reached, after the last write.
    pub(super) fn record_end(&self) -> Result<()> {
        let (segment, sequence) = (self.active.header.number, self.sequence);
        end::write(&*self.files, &LogEnd { store: self.store, segment, sequence, revision: self.revision })
    }

    fn seal(&self, segment: &Segment) {
        let sealed =
            Sealed { number: segment.header.number, last: self.revision, bytes: segment.header.size };
        let mut list = self.sealed.lock();
        list.push(sealed);
        list.sort_unstable_by_key(|sealed| sealed.number);
    }

    fn next_segment(&mut self, len: u64) -> Result<Segment> {
        if !self.spares.is_empty() {
            return Ok(self.spares.remove(0));
        }
        // A failure in the background, mostly a full disk, may be over by now.
        if let Some(Ok(segment)) = self.making.take().map(join) {
            return Ok(segment);
        }
        let mut plan = self.plan_next();
        plan.size = plan.size.max((HEADER_BYTES + len + CONTINUES_BYTES).next_multiple_of(HEADER_BYTES));
        Segment::create(&*self.files, plan)
    }

    fn plan_next(&mut self) -> SegmentPlan {
        let sealed_last = self.sealed.lock().last().map_or(0, |sealed| sealed.number);
        let number = self.active.header.number.max(sealed_last) + 1;
        let size = (self.active.header.size * SEGMENT_GROWTH).min(self.segment_bytes);
        SegmentPlan { store: self.store, number, salt: self.rng.u64(), size }
    }

    /// Starts a thread that creates the next segment once the active one is half full.
    fn prepare_ahead(&mut self) {
        let half_full = self.offset > self.active.header.size / 2;
        if !half_full || !self.spares.is_empty() || self.making.is_some() {
            return;
        }
        let plan = self.plan_next();
        let files = self.files.clone();
        let make = move || Segment::create(&*files, plan);
        // Without a thread the segment is created when it is needed, which is only slower.
        self.making = std::thread::Builder::new().name("store-segment".into()).spawn(make).ok();
    }

    /// Waits for the thread that creates the next segment, if there is one.
    pub(super) fn finish(&mut self) {
        self.making.take().map(join);
    }
}

fn join(thread: JoinHandle<Result<Segment>>) -> Result<Segment> {
    // The panic has been printed; handled like any failure to create the segment.
    thread.join().unwrap_or(Err(Error::Closed))
}
