//! A log segment: one file, created with its full size and zero-filled before it is used, then only overwritten.
//!
//! Filling it in advance means that appending changes no file length and allocates no block, so a sync only writes
//! data. It also means that a full disk is detected here, before anything has been acknowledged.

use std::sync::Arc;

use super::damage::{Damage, Fault};
use super::files::{File, Files, io_error, read_full};
use super::format::{
    BadHeader, HEADER_BYTES, LOG_VERSION, SegmentHeader, StoreId, VERSION, segment_name, temporary_name,
};
use super::frame::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, NotAFrame};
use crate::error::{Error, Result};

/// Zeros are written in chunks of this size.
const FILL_CHUNK: usize = 256 << 10;

/// An open segment.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn File>,
    /// Actual length of the file. If it is less than the header says, the end is missing.
    pub(super) len: u64,
}

/// Parameters of a new segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPlan {
    pub(super) store: StoreId,
    pub(super) number: u64,
    pub(super) salt: u64,
    pub(super) size: u64,
}

impl Segment {
    /// Creates a segment; it is durable when this returns, including its name. Leaves no file behind on failure.
    pub(super) fn create(files: &dyn Files, plan: SegmentPlan) -> Result<Self> {
        let name = segment_name(plan.number);
        let temporary = temporary_name(&name);
        let SegmentPlan { store, number, salt, size } = plan;
        let header = SegmentHeader { version: LOG_VERSION, store, number, salt, size };
        let created = fill(files, &temporary, &header).and_then(|file| {
            files.rename(&temporary, &name)?;
            files.sync_dir()?;
            Ok(file)
        });
        match created {
            Ok(file) => Ok(Self { header, file, len: size }),
            Err(source) => {
                // Frees the space; if this fails too, opening the store will do it.
                let _ = files.remove(&temporary);
                Err(io_error("create", &files.path(&name), source))
            }
        }
    }

    /// Opens a segment and validates its header.
    pub(super) fn open(files: &dyn Files, number: u64) -> Result<Self, Fault> {
        let name = segment_name(number);
        let path = files.path(&name);
        let file = files.open(&name).map_err(|source| io_error("open", &path, source))?;
        let mut block = vec![0; HEADER_BYTES as usize];
        let read = read_full(&*file, &mut block, 0).map_err(|source| io_error("read", &path, source))?;
        let unusable = |detail: &str| Damage::unusable_segment(number, detail);
        let header = match SegmentHeader::decode(&block[..read]) {
            Ok(header) => header,
            Err(BadHeader::UnknownVersion(found)) => {
                return Err(Error::UnknownFormat { path, found, supported: VERSION }.into());
            }
            Err(BadHeader::Damaged(detail)) => return Err(unusable(detail).into()),
        };
        if header.number != number {
            return Err(unusable("the file is another segment of the log under this name").into());
        }
        let len = file.size().map_err(|source| io_error("read", &path, source))?;
        Ok(Self { header, file, len })
    }

    /// Returns true if the file is shorter than when it was created.
    pub(super) fn is_cut_off(&self) -> bool {
        self.len < self.header.size
    }
}

fn fill(files: &dyn Files, name: &str, header: &SegmentHeader) -> std::io::Result<Arc<dyn File>> {
    let file = files.create(name)?;
    let zeros = vec![0; FILL_CHUNK];
    let mut offset = HEADER_BYTES;
    while offset < header.size {
        let len = usize::try_from(header.size - offset).unwrap_or(FILL_CHUNK).min(FILL_CHUNK);
        file.write_all_at(&zeros[..len], offset)?;
        offset += len as u64;
    }
    file.write_all_at(&header.encode(), 0)?;
    file.sync()?;
    Ok(file)
}

/// Maximum bytes per read.
const READ_AHEAD: usize = 1 << 20;

/// Reads the frames of a segment from the start.
pub(super) struct FrameReader<'a> {
    segment: &'a Segment,
    /// Offset of the next frame.
    offset: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

/// The result of reading at the current position.
pub(super) enum Step<'b> {
    Frame { header: FrameHeader, payload: &'b [u8], offset: u64 },
    Stop(NotAFrame),
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(segment: &'a Segment) -> Self {
        Self::at(segment, HEADER_BYTES)
    }

    fn at(segment: &'a Segment, offset: u64) -> Self {
        Self { segment, offset, buffer: Vec::new(), buffer_offset: offset }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the frame at the current position and advances past it.
    pub(super) fn next(&mut self) -> std::io::Result<Step<'_>> {
        let salt = self.segment.header.salt;
        let offset = self.offset;
        let Some(header_bytes) = self.header_bytes()? else {
            return Ok(Step::Stop(NotAFrame::Blank));
        };
        let header = match FrameHeader::decode(&header_bytes) {
            Ok(header) => header,
            Err(reason) => return Ok(Step::Stop(reason)),
        };
        let Some(bytes) = self.peek(FRAME_HEADER_BYTES + header.payload_len)? else {
            return Ok(Step::Stop(NotAFrame::Broken("a frame extends beyond the end of the file")));
        };
        // Borrowed again below, because the borrow checker cannot see that this path does not return it.
        if !header.matches(&header_bytes, &bytes[FRAME_HEADER_BYTES..], salt) {
            return Ok(Step::Stop(NotAFrame::Broken("a frame's checksum does not match")));
        }
        self.offset += header.total_len();
        let start = (offset - self.buffer_offset) as usize + FRAME_HEADER_BYTES;
        Ok(Step::Frame { header, payload: &self.buffer[start..start + header.payload_len], offset })
    }

    fn header_bytes(&mut self) -> std::io::Result<Option<[u8; FRAME_HEADER_BYTES]>> {
        let bytes = self.peek(FRAME_HEADER_BYTES)?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
    }

    /// The next `len` bytes, or `None` if the file ends before.
    fn peek(&mut self, len: usize) -> std::io::Result<Option<&[u8]>> {
        let start = (self.offset - self.buffer_offset) as usize;
        if start + len > self.buffer.len() {
            let length = len.max(self.read_ahead());
            self.buffer.resize(length, 0);
            self.buffer_offset = self.offset;
            let read = read_full(&*self.segment.file, &mut self.buffer, self.offset)?;
            self.buffer.truncate(read);
            return Ok(self.buffer.get(..len));
        }
        Ok(self.buffer.get(start..start + len))
    }

    /// The end of data written after the current position: only zeros follow.
    pub(super) fn written_end(&self) -> std::io::Result<u64> {
        let mut end = self.offset;
        self.windows_behind(|offset, window| {
            if let Some(last) = window.iter().rposition(|byte| *byte != 0) {
                end = offset + last as u64 + 1;
            }
        })?;
        Ok(end)
    }

    /// Searches for a readable frame after the current position.
    pub(super) fn any_frame_behind(&self) -> std::io::Result<Option<u64>> {
        let mut begins = Vec::new();
        self.windows_behind(|offset, window| {
            let candidates = window.chunks_exact(FRAME_ALIGN).enumerate();
            let found = candidates.filter(|(_, bytes)| FrameHeader::may_begin_with(bytes));
            begins.extend(found.map(|(at, _)| offset + (at * FRAME_ALIGN) as u64));
        })?;
        for begin in begins {
            let mut reader = FrameReader::at(self.segment, begin);
            if matches!(reader.next()?, Step::Frame { .. }) {
                return Ok(Some(begin));
            }
        }
        Ok(None)
    }

    /// Calls `show` with everything from the current position to the end of the file, in aligned chunks.
    fn windows_behind(&self, mut show: impl FnMut(u64, &[u8])) -> std::io::Result<()> {
        let mut window = vec![0; self.read_ahead()];
        let mut offset = self.offset;
        loop {
            let read = read_full(&*self.segment.file, &mut window, offset)?;
            show(offset, &window[..read]);
            if read < window.len() || read == 0 {
                return Ok(());
            }
            offset += read as u64;
        }
    }

    /// Bytes to read at once: no more than the segment can contain.
    fn read_ahead(&self) -> usize {
        let left = self.segment.header.size.saturating_sub(self.offset);
        usize::try_from(left)
            .unwrap_or(READ_AHEAD)
            .next_multiple_of(FRAME_ALIGN)
            .clamp(FRAME_ALIGN, READ_AHEAD)
    }
}

/// Overwrites a part of a segment with zeros, durably.
pub(super) fn blank(segment: &Segment, from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; FILL_CHUNK];
    let mut offset = from;
    while offset < to {
        let len = usize::try_from(to - offset).unwrap_or(FILL_CHUNK).min(FILL_CHUNK);
        segment.file.write_all_at(&zeros[..len], offset)?;
        offset += len as u64;
    }
    segment.file.sync()
}
