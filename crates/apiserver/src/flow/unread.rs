//! Response bytes that clients have not read, and how long they may stay unread.
//!
//! Every response over a connection has one [`Unread`]. It counts the bytes that the response keeps in memory: frames
//! of a watch that are ready, the frame that is being sent, and bytes that HTTP/2 has queued because the client's
//! window is closed. The response is ended if its client takes no byte for [`STALL_LIMIT`]; a seat that it still holds
//! is released after [`SEAT_STALL`], so that clients that do not read do not delay other requests.
//!
//! The sum for each user is limited. Beyond the limit, watches produce no further events until there is room, and those
//! that lag most are ended; their clients list again. Memory is counted for each response even if several share a
//! frame. Only a few watches of a user write a large event at once ([`LargeWrite`]): encrypting one object of 1 MB for
//! a thousand watches takes a second of processor time, and requests of other users would wait for all of it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::Seat;
use super::users::{LargeWrite, User};

/// How long a client may take none of the bytes that are ready for it. kubectl and client-go read all the time; a
/// network that loses every packet for so long makes them give up, too. Then the response is ended: over
/// HTTP/2 its stream is reset, over HTTP/1.1 its connection is closed.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(30);

/// How long a response keeps its seat while its client takes nothing. A response that is written to a socket with
/// room never waits so long; one that waits uses no processor.
const SEAT_STALL: Duration = Duration::from_millis(50);

/// How long a watch that writes a large event keeps others of its user from doing so. A socket with room takes 1 MB in
/// a few milliseconds; after these a client or a network is slow, and waiting for it uses no processor.
const LARGE_WRITE_TIME: Duration = Duration::from_millis(20);

/// Larger events are written by a few watches of a user at once.
const LARGE_EVENT_BYTES: usize = 64 * 1024;

/// Bytes that one watch may keep unread: the largest object in its largest form, with room for the events gathered
/// behind it. A watch beyond it is ended.
const WATCH_BYTES: usize = 16 * 1024 * 1024;

/// The unread bytes of one response.
pub(crate) struct Unread {
    began: Instant,
    bytes: AtomicUsize,
    /// Milliseconds after `began` at which the client took a byte last, or the first became ready.
    progress_ms: AtomicU64,
    is_watch: AtomicBool,
    is_ended: AtomicBool,
    /// The task that writes the response, once it waits.
    writer: AtomicWaker,
    /// The user of the response; unset if the request was not authenticated.
    user: OnceLock<Arc<User>>,
    turn: Mutex<Option<Turn>>,
}

/// The permission to use the processor for a response. Responses whose client is slow give it back.
enum Turn {
    Seat { _seat: Seat },
    LargeWrite { _permit: LargeWrite, until: Instant },
}

/// The decision about a response whose client may have stalled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing waits for the client.
    Idle,
    /// To be looked at again then.
    Until(Instant),
    /// The response is to be ended.
    End,
}

impl Unread {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            bytes: AtomicUsize::new(0),
            progress_ms: AtomicU64::new(0),
            is_watch: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            writer: AtomicWaker::new(),
            user: OnceLock::new(),
            turn: Mutex::new(None),
        })
    }

    /// Counts the bytes for a user from now on.
    pub(super) fn belongs_to(self: &Arc<Self>, user: Arc<User>, is_watch: bool) {
        self.is_watch.store(is_watch, Ordering::Relaxed);
        if is_watch {
            user.add_watch(self);
        }
        // There is one user for each request, so this is not set before.
        let _ = self.user.set(user);
    }

    /// Keeps the seat until the response has gone, or its client stalls.
    pub(super) fn hold_seat(&self, seat: Seat) {
        self.set_turn(Some(Turn::Seat { _seat: seat }));
    }

    /// Keeps other watches of the user from writing a large event while this one does.
    fn hold_large_write(&self, permit: LargeWrite) {
        let until = Instant::now() + LARGE_WRITE_TIME;
        self.set_turn(Some(Turn::LargeWrite { _permit: permit, until }));
    }

    /// Frees the seat or the permission to write a large event, if there is one.
    pub(crate) fn release_turn(&self) {
        self.set_turn(None);
    }

    fn set_turn(&self, turn: Option<Turn>) {
        let before = std::mem::replace(&mut *self.turn.lock().unwrap_or_else(PoisonError::into_inner), turn);
        drop(before);
    }

    /// Counts bytes until the result is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.add(bytes);
        Charge { unread: self.clone(), bytes }
    }

    /// Notes that the client took a byte.
    pub(crate) fn note_progress(&self) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress_ms.store(elapsed, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When the client took a byte last.
    pub(super) fn last_progress(&self) -> Instant {
        self.began + Duration::from_millis(self.progress_ms.load(Ordering::Relaxed))
    }

    /// Ends the response.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.writer.wake();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Wakes this when the response is ended.
    pub(crate) fn register(&self, writer: &Waker) {
        self.writer.register(writer);
    }

    /// Decides about the response as of now, and notes its end.
    pub(crate) fn judge_and_end(&self) -> Verdict {
        let verdict = self.judge();
        if verdict == Verdict::End {
            self.is_ended.store(true, Ordering::SeqCst);
        }
        verdict
    }

    /// Decides about the response as of now.
    pub(crate) fn judge(&self) -> Verdict {
        if self.is_ended() {
            return Verdict::End;
        }
        if self.bytes() == 0 {
            return Verdict::Idle;
        }
        let (now, progress) = (Instant::now(), self.last_progress());
        if now >= progress + STALL_LIMIT {
            return Verdict::End;
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let until = match &*turn {
            None => None,
            Some(Turn::Seat { .. }) => Some(progress + SEAT_STALL),
            Some(Turn::LargeWrite { until, .. }) => Some(*until),
        };
        if let Some(until) = until.filter(|until| now < *until) {
            return Verdict::Until(until);
        }
        let freed = turn.take();
        drop(turn);
        drop(freed);
        Verdict::Until(progress + STALL_LIMIT)
    }

    fn add(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            self.note_progress();
        }
        if before + bytes > WATCH_BYTES && self.is_watch.load(Ordering::Relaxed) {
            self.end();
        }
        if let Some(user) = self.user.get() {
            user.add_unread(bytes);
        }
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(user) = self.user.get() {
            user.remove_unread(bytes);
        }
    }
}

/// Bytes that count as unread.
pub(crate) struct Charge {
    unread: Arc<Unread>,
    bytes: usize,
}

impl Charge {
    /// Returns true if an event of so many bytes fits the limits of the user now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.unread.user.get().is_none_or(|user| bytes <= LARGE_EVENT_BYTES && user.has_room(bytes))
    }

    /// Waits until an event of so many bytes fits. False if it did not for too long. Safe to drop: only waits.
    pub(crate) async fn room(&self, bytes: usize) -> bool {
        let Some(user) = self.unread.user.get() else { return true };
        let deadline = Instant::now() + STALL_LIMIT;
        if bytes <= LARGE_EVENT_BYTES {
            return user.room(bytes, deadline).await;
        }
        let Ok(permit) = tokio::time::timeout_at(deadline, user.large_write()).await else { return false };
        let has_room = user.room(bytes, deadline).await;
        if has_room {
            self.unread.hold_large_write(permit);
        }
        has_room
    }

    /// Returns true if the response was ended because its client does not read.
    pub(crate) fn is_ended(&self) -> bool {
        self.unread.is_ended()
    }

    /// Notes that the connection has taken the event that was written last.
    pub(crate) fn note_written(&self) {
        self.unread.release_turn();
    }

    /// Records that the client took some of the bytes. They stay in memory until the last of them is taken.
    pub(crate) fn note_progress(&self) {
        self.unread.note_progress();
    }

    /// Replaces the number of bytes.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.unread.add(bytes - self.bytes);
        } else {
            self.unread.remove(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.unread.remove(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::users::LARGE_WRITES_PER_USER;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn response_is_ended_when_its_client_takes_nothing() {
        let unread = Unread::new();
        assert_eq!(unread.judge(), Verdict::Idle);
        tokio::time::sleep(STALL_LIMIT).await;
        let charge = unread.charge(10);
        let began = Instant::now();
        assert_eq!(unread.judge(), Verdict::Until(began + STALL_LIMIT));
        tokio::time::sleep(STALL_LIMIT / 2).await;
        charge.note_progress();
        tokio::time::sleep(STALL_LIMIT / 2).await;
        assert_eq!(unread.judge(), Verdict::Until(began + STALL_LIMIT / 2 + STALL_LIMIT));
        tokio::time::sleep(STALL_LIMIT / 2).await;
        assert_eq!(unread.judge(), Verdict::End);
        drop(charge);
        assert_eq!(unread.judge(), Verdict::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn few_watches_of_a_user_write_a_large_event_at_once() {
        let user = Arc::<User>::default();
        let charges: Vec<_> = (0..LARGE_WRITES_PER_USER + 3)
            .map(|_| {
                let watch = Unread::new();
                watch.belongs_to(user.clone(), true);
                watch.charge(1)
            })
            .collect();
        let (writing, waiting) = charges.split_at(LARGE_WRITES_PER_USER);
        for charge in writing {
            assert!(!charge.has_room(LARGE_EVENT_BYTES + 1));
            assert!(charge.room(LARGE_EVENT_BYTES + 1).await);
        }
        let mut rooms: Vec<_> =
            waiting.iter().map(|charge| Box::pin(charge.room(LARGE_EVENT_BYTES + 1))).collect();
        for room in &mut rooms {
            assert!(futures_util::poll!(room).is_pending());
        }
        assert!(waiting[0].has_room(LARGE_EVENT_BYTES) && waiting[0].room(LARGE_EVENT_BYTES).await);
        // One has written its event, another one has a slow client.
        writing[0].note_written();
        assert!(
            futures_util::poll!(&mut rooms[0]).is_ready() && futures_util::poll!(&mut rooms[1]).is_pending()
        );
        tokio::time::sleep(LARGE_WRITE_TIME).await;
        assert!(matches!(writing[1].unread.judge(), Verdict::Until(_)));
        assert!(
            futures_util::poll!(&mut rooms[1]).is_ready() && futures_util::poll!(&mut rooms[2]).is_pending()
        );
        tokio::time::sleep(STALL_LIMIT).await;
        assert_eq!(futures_util::poll!(&mut rooms[2]), std::task::Poll::Ready(false));
    }

    #[tokio::test]
    async fn watch_over_its_limit_is_ended() {
        let (watch, other) = (Unread::new(), Unread::new());
        watch.belongs_to(Arc::default(), true);
        other.belongs_to(Arc::default(), false);
        let mut charges = [watch.charge(WATCH_BYTES), other.charge(WATCH_BYTES)];
        assert_eq!((watch.is_ended(), other.is_ended()), (false, false));
        charges.iter_mut().for_each(|charge| charge.set(WATCH_BYTES + 1));
        assert_eq!((watch.is_ended(), other.is_ended()), (true, false));
    }
}
