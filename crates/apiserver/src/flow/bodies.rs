//! The memory that request bodies may take from their arrival until they are dropped.
//!
//! A body counts with its announced size as soon as the server begins to read it, and with every byte that arrives
//! beyond that, until its request has no more use for it. A request that exceeds its user's limit is rejected with 429
//! at once; it does not wait, because the bytes that the client has sent already would stay in memory meanwhile. When
//! all bodies together reach their limit, the user with the most bytes is evicted from: its largest body that waits for
//! a seat is rejected with 429. Users with few bytes are not limited by others. So a user cannot occupy the memory of
//! others, however slowly it sends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Bytes of all request bodies: over twenty of the largest, so that ordinary load, whose bodies have some KiB
/// and arrive within milliseconds, never comes near it. Beyond it the largest body of the user with most bytes is
/// rejected.
pub(super) const TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the request bodies of one user: two of the largest, or thousands of ordinary ones. Further requests of
/// the user are rejected with 429.
pub(super) const USER_BYTES: usize = 8 * 1024 * 1024;

/// This part of the limit of a user, 256 KiB, is admitted even when all bodies together are at their limit: bodies of
/// requests with seats cannot be evicted, and must not lock out users with ordinary objects.
const SMALL_PART: usize = 32;

/// A body does not fit the limits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodiesFull;

/// Counts the bytes of request bodies.
pub(crate) struct Bodies {
    total: usize,
    per_user: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    /// Users with at least one body.
    users: HashMap<Arc<str>, UserBodies>,
    next_id: u64,
}

#[derive(Default)]
struct UserBodies {
    bytes: usize,
    bodies: HashMap<u64, Counted>,
}

struct Counted {
    bytes: usize,
    revoked: CancellationToken,
    /// Set once its request has a seat; then it cannot be evicted.
    is_kept: bool,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(TOTAL_BYTES, USER_BYTES)
    }
}

impl Bodies {
    fn new(total: usize, per_user: usize) -> Self {
        Self { total, per_user, state: Mutex::default() }
    }

    /// Counts a body of a user that announces `announced` bytes.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        user: &Arc<str>,
        announced: usize,
    ) -> Result<Reservation, BodiesFull> {
        let revoked = CancellationToken::new();
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        let counted = Counted { bytes: 0, revoked: revoked.clone(), is_kept: false };
        state.users.entry(user.clone()).or_default().bodies.insert(id, counted);
        drop(state);
        let reservation = Reservation { bodies: self.clone(), user: user.clone(), id, revoked };
        reservation.grow(announced)?;
        Ok(reservation)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn user_bytes(&self, user: &str) -> usize {
        self.users.get(user).map_or(0, |user| user.bytes)
    }

    /// Evicts the largest body without a seat, of the user with most bytes that has one, if that user holds more than
    /// `bytes`.
    fn revoke_from_largest(&mut self, bytes: usize) -> bool {
        let gives_way = |body: &Counted| !body.is_kept && body.bytes > 0;
        let users = self.users.values_mut().filter(|user| user.bytes > bytes);
        let users = users.filter(|user| user.bodies.values().any(gives_way));
        let Some(user) = users.max_by_key(|user| user.bytes) else { return false };
        let bodies = user.bodies.values_mut().filter(|body| gives_way(body));
        let Some(body) = bodies.max_by_key(|body| body.bytes) else { return false };
        // The reader drops the bytes as soon as it runs; they belong to the next body from now on.
        body.revoked.cancel();
        let freed = std::mem::take(&mut body.bytes);
        user.bytes -= freed;
        self.bytes -= freed;
        freed > 0
    }
}

/// The bytes of one body, released when it is dropped.
pub(crate) struct Reservation {
    bodies: Arc<Bodies>,
    user: Arc<str>,
    id: u64,
    revoked: CancellationToken,
}

impl Reservation {
    /// Counts `more` bytes.
    pub(crate) fn grow(&self, more: usize) -> Result<(), BodiesFull> {
        let mut state = self.bodies.lock();
        let wanted = state.user_bytes(&self.user) + more;
        if self.revoked.is_cancelled() || wanted > self.bodies.per_user {
            return Err(BodiesFull);
        }
        while wanted > self.bodies.per_user / SMALL_PART && state.bytes + more > self.bodies.total {
            if !state.revoke_from_largest(wanted) {
                return Err(BodiesFull);
            }
        }
        let State { bytes, users, .. } = &mut *state;
        if let Some(user) = users.get_mut(&self.user)
            && let Some(body) = user.bodies.get_mut(&self.id)
        {
            body.bytes += more;
            user.bytes += more;
            *bytes += more;
        }
        Ok(())
    }

    /// Protects the body from eviction, because its request is being executed.
    pub(crate) fn keep(&self) {
        let mut state = self.bodies.lock();
        let user = state.users.get_mut(&self.user);
        if let Some(body) = user.and_then(|user| user.bodies.get_mut(&self.id)) {
            body.is_kept = true;
        }
    }

    /// Runs `work` as long as the body is not evicted.
    pub(crate) async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T, BodiesFull> {
        tokio::select! {
            // Safe to drop: the request is rejected and with it everything that it waited for.
            done = work => Ok(done),
            // Safe to drop: only waits.
            () = self.revoked.cancelled() => Err(BodiesFull),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.bodies.lock();
        let State { bytes, users, .. } = &mut *state;
        let Some(user) = users.get_mut(&self.user) else { return };
        if let Some(body) = user.bodies.remove(&self.id) {
            user.bytes -= body.bytes;
            *bytes -= body.bytes;
        }
        if user.bodies.is_empty() {
            users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_body_does_not_give_way_and_small_users_are_admitted_all_the_same() {
        let bodies = Arc::new(Bodies::new(100, 64));
        let kept = [bodies.reserve(&"a".into(), 60).unwrap(), bodies.reserve(&"b".into(), 40).unwrap()];
        kept.iter().for_each(Reservation::keep);
        assert_eq!(bodies.reserve(&"c".into(), 3).err(), Some(BodiesFull));
        let small = bodies.reserve(&"c".into(), 2).unwrap();
        assert!(kept.iter().all(|body| !body.revoked.is_cancelled()));
        drop((kept, small));
        assert_eq!(bodies.lock().bytes, 0);
    }

    #[test]
    fn user_over_its_limit_is_rejected_and_others_are_not() {
        let bodies = Arc::new(Bodies::new(100, 40));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let first = bodies.reserve(&a, 30).unwrap();
        assert_eq!(bodies.reserve(&a, 11).err(), Some(BodiesFull));
        assert_eq!(first.grow(11), Err(BodiesFull));
        let other = bodies.reserve(&b, 40).unwrap();
        drop(first);
        let again = bodies.reserve(&a, 40).unwrap();
        drop((other, again));
        let state = bodies.lock();
        assert_eq!((state.bytes, state.users.len()), (0, 0));
    }

    #[tokio::test]
    async fn full_memory_is_taken_from_the_user_with_most_bytes() {
        let bodies = Arc::new(Bodies::new(100, 40));
        let users: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        let small = bodies.reserve(&users[0], 10).unwrap();
        let large = bodies.reserve(&users[0], 30).unwrap();
        let held = [bodies.reserve(&users[1], 30).unwrap(), bodies.reserve(&users[2], 30).unwrap()];
        let newcomer = bodies.reserve(&"d".into(), 5).unwrap();
        assert_eq!(large.while_held(std::future::pending::<()>()).await, Err(BodiesFull));
        assert_eq!(small.while_held(std::future::ready(1)).await, Ok(1));
        assert!(held.iter().all(|body| !body.revoked.is_cancelled()));
        assert_eq!(large.grow(1), Err(BodiesFull));
        // Every user holds less than this one would, so none gives way.
        let _full = [newcomer.grow(20), bodies.reserve(&"e".into(), 5).map(drop)];
        assert_eq!(bodies.reserve(&"f".into(), 40).err(), Some(BodiesFull));
        drop((small, large, held, newcomer));
        assert_eq!(bodies.lock().bytes, 0);
    }
}
