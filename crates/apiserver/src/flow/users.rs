//! Limits of a user beside seats: long-running requests, and response bytes that it has not read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::unread::Unread;

/// Bytes that the responses of one user may keep unread before its watches make no further events: room for the
/// watches of a busy controller behind a slow network, and little enough that many such users fit a small machine.
/// Beyond it watches wait for each other, and those that lag most are ended.
pub(super) const USER_UNREAD_BYTES: usize = 64 * 1024 * 1024;

/// How long the client of a watch may take nothing before the watch is ended for another one of its user that waits
/// for room. A client that reads takes something every few milliseconds.
const LAG_LIMIT: Duration = Duration::from_secs(1);

/// Bytes that the responses of one user may keep unread before further requests are rejected with 429. A single
/// list may be larger, since its size is known only when it has been made.
const USER_RESPONSE_BYTES: usize = 2 * USER_UNREAD_BYTES;

/// How many watches of one user write a large event at once: each takes some milliseconds of a core, and
/// requests of other users wait for them.
pub(super) const LARGE_WRITES_PER_USER: usize = 2;

/// Users without running requests are kept as long as there are at most this many, or no more than there are other
/// users: a user that has sent one request usually sends another.
const IDLE_USERS: usize = 1024;

/// All users, by cluster and name.
#[derive(Default)]
pub(super) struct Users {
    by_key: Mutex<HashMap<Arc<str>, Arc<User>>>,
}

/// One user of one cluster.
#[derive(Default)]
pub(crate) struct User {
    long_running: AtomicUsize,
    unread: AtomicUsize,
    watches: Mutex<Watches>,
    /// Wakes a watch that waits for room.
    freed: Notify,
    large_writes: LargeWrites,
}

/// The permission of a watch to write a large event.
pub(super) type LargeWrite = Option<OwnedSemaphorePermit>;

struct LargeWrites(Arc<Semaphore>);

impl Default for LargeWrites {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_WRITES_PER_USER)))
    }
}

#[derive(Default)]
struct Watches {
    all: Vec<Weak<Unread>>,
    /// Number of watches at which those that have ended are removed.
    prune_at: usize,
}

impl Users {
    pub(super) fn get(&self, key: &Arc<str>) -> Arc<User> {
        let mut users = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get(key) {
            return user.clone();
        }
        if users.len() >= IDLE_USERS && users.len().is_power_of_two() {
            users.retain(|_, user| Arc::strong_count(user) > 1);
        }
        users.entry(key.clone()).or_default().clone()
    }
}

impl Users {
    /// Removes the users of a cluster. Requests under way keep counting for theirs.
    pub(super) fn forget_cluster(&self, id: &str) {
        let mut users = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|key, _| key.split_once('/').is_none_or(|(cluster, _)| cluster != id));
    }

    /// How many users of clusters other than the default one are held.
    pub(super) fn of_other_clusters(&self) -> usize {
        let users = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        users.keys().filter(|key| !key.starts_with("default/")).count()
    }
}

impl User {
    /// Returns true if the user has left so much unread that it gets nothing more for now.
    pub(super) fn is_saturated(&self) -> bool {
        self.unread.load(Ordering::Relaxed) > USER_RESPONSE_BYTES
    }

    /// Counts a long-running request, if there are fewer than `limit`.
    pub(super) fn begin_long_running(self: &Arc<Self>, limit: usize) -> Option<LongRunning> {
        let more = |running: usize| (running < limit).then_some(running + 1);
        self.long_running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(LongRunning(self.clone()))
    }

    pub(super) fn add_watch(&self, watch: &Arc<Unread>) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.all.len() >= watches.prune_at {
            watches.all.retain(|watch| watch.strong_count() > 0);
            watches.prune_at = 16.max(2 * watches.all.len());
        }
        watches.all.push(Arc::downgrade(watch));
    }

    pub(super) fn add_unread(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove_unread(&self, bytes: usize) {
        let before = self.unread.fetch_sub(bytes, Ordering::Relaxed);
        // Watches wait for room only near the limit.
        if before > USER_UNREAD_BYTES / 2 {
            self.freed.notify_one();
        }
    }

    /// Returns true if `bytes` more fit. Any number fits for a user without unread bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let unread = self.unread.load(Ordering::Relaxed);
        unread == 0 || unread + bytes <= USER_UNREAD_BYTES
    }

    /// Waits until a watch may write a large event, in order of arrival.
    pub(super) async fn large_write(&self) -> LargeWrite {
        // The semaphore is never closed, so a permit is always granted eventually.
        self.large_writes.0.clone().acquire_owned().await.ok()
    }

    /// Waits until `bytes` more fit. Returns false after the deadline; then the watch must end.
    pub(super) async fn room(&self, bytes: usize, deadline: Instant) -> bool {
        loop {
            let freed = self.freed.notified();
            let now = Instant::now();
            if self.has_room(bytes) {
                // There may be room for another watch, too.
                self.freed.notify_one();
                return true;
            }
            if now >= deadline {
                return false;
            }
            self.end_lagging(bytes, now);
            // Checked again after a timeout, too.
            let _ = tokio::time::timeout_at(deadline.min(now + LAG_LIMIT), freed).await;
        }
    }

    /// Ends the watches that lag most until `wanted` bytes become free.
    fn end_lagging(&self, mut missing: usize, now: Instant) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lagging = Vec::new();
        for watch in watches.all.iter().filter_map(Weak::upgrade) {
            match watch.bytes() {
                0 => {}
                // Free as soon as its task runs.
                bytes if watch.is_ended() => missing = missing.saturating_sub(bytes),
                _ if watch.last_progress() + LAG_LIMIT <= now => lagging.push(watch),
                _ => {}
            }
        }
        drop(watches);
        lagging.sort_by_key(|watch| watch.last_progress());
        for watch in lagging {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(watch.bytes());
            tracing::debug!(bytes = watch.bytes(), "ending a watch whose client does not read");
            watch.end();
        }
    }
}

/// A long-running request. No longer counted when it is dropped.
pub(super) struct LongRunning(Arc<User>);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.long_running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::unread::STALL_LIMIT;
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn watch_that_lags_most_ends_when_another_one_needs_room() {
        let user = Arc::<User>::default();
        let (mut charges, mut watches) = (Vec::new(), Vec::new());
        for _ in 0..USER_UNREAD_BYTES / MIB {
            let watch = Unread::new();
            watch.belongs_to(user.clone(), true);
            charges.push(Some(watch.charge(MIB)));
            watches.push(watch);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!user.has_room(1) && user.has_room(0));
        // The oldest has moved on, so the second lags most.
        charges[0].as_ref().unwrap().note_progress();
        let ended = || (0..watches.len()).find(|index| watches[*index].is_ended());
        let mut room = Box::pin(user.room(MIB, Instant::now() + STALL_LIMIT));
        assert!(futures_util::poll!(&mut room).is_pending());
        assert_eq!(ended(), Some(1));
        charges[1] = None;
        assert!(room.await);
        assert_eq!(watches.iter().filter(|watch| watch.is_ended()).count(), 1);
        let list = Unread::new();
        list.belongs_to(user.clone(), false);
        let _large = list.charge(USER_RESPONSE_BYTES);
        assert!(user.is_saturated() && !list.is_ended());
        drop(charges);
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_finds_no_room_gives_up() {
        let user = Arc::<User>::default();
        let list = Unread::new();
        list.belongs_to(user.clone(), false);
        let _charge = list.charge(USER_UNREAD_BYTES);
        let began = Instant::now();
        assert!(!user.room(1, began + STALL_LIMIT).await);
        assert_eq!(began.elapsed(), STALL_LIMIT);
    }

    #[test]
    fn long_running_requests_are_limited() {
        let users = Users::default();
        let key: Arc<str> = "c/u".into();
        let first = users.get(&key).begin_long_running(1).unwrap();
        assert!(users.get(&key).begin_long_running(1).is_none());
        drop(first);
        assert!(users.get(&key).begin_long_running(1).is_some());
        for number in 0..2 * IDLE_USERS {
            users.get(&number.to_string().into());
        }
        assert!(users.by_key.lock().unwrap().len() <= IDLE_USERS + 1);
    }
}
