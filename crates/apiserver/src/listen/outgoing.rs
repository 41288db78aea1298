//! Outgoing response bodies, whose bytes are counted from their creation until the last byte is written.

use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::activity::Running;
use super::stall::Stalls;
use crate::body::ResponseBody;
use crate::flow::{Charge, Unread};

/// Bytes that are passed to the connection at a time. The rest of a longer frame stays in [`Outgoing`], where it can be
/// dropped with its stream when the client does not read.
const PIECE_BYTES: usize = 64 * 1024;

/// A response body.
pub(super) struct Outgoing {
    body: ResponseBody,
    /// The rest of a long frame.
    rest: Option<Piece>,
    unread: Arc<Unread>,
    /// The monitor of the connection, for bytes that are still queued after the body was dropped.
    stalls: Arc<Stalls>,
    _running: Running,
}

impl Outgoing {
    pub(super) fn new(
        body: ResponseBody,
        unread: Arc<Unread>,
        stalls: Arc<Stalls>,
        running: Running,
    ) -> Self {
        Self { body, rest: None, unread, stalls, _running: running }
    }
}

impl Body for Outgoing {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        let this = &mut *self;
        if this.rest.is_none() {
            let frame = match std::task::ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(frame) => frame.unwrap_or_else(|never| match never {}),
            };
            let bytes = match frame.into_data() {
                Ok(bytes) => bytes,
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            };
            let charge = Arc::new(this.unread.charge(bytes.len()));
            this.rest = Some(Piece { bytes, charge });
        }
        let piece = this.rest.as_mut().map(|rest| rest.split(PIECE_BYTES));
        this.rest.take_if(|rest| rest.bytes.is_empty());
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.bytes.len() as u64);
        let hint = self.body.size_hint();
        let mut all = SizeHint::new();
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all.set_lower(hint.lower() + rest);
        all
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.rest = None;
        self.unread.release_turn();
        if self.unread.bytes() > 0 {
            self.stalls.watch(self.unread.clone());
        }
    }
}

/// Bytes of a frame. The whole frame counts until its last piece has been written.
pub(super) struct Piece {
    bytes: Bytes,
    charge: Arc<Charge>,
}

impl Piece {
    fn split(&mut self, at_most: usize) -> Self {
        let length = at_most.min(self.bytes.len());
        Self { bytes: self.bytes.split_to(length), charge: self.charge.clone() }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.charge.note_progress();
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.charge.note_progress();
        self.bytes.copy_to_bytes(length)
    }
}
