//! Leases for expiring keys, each shared by many keys with similar expiry.
//!
//! A lease per key would cost etcd as much as the key itself. A lease is granted for slightly longer than requested,
//! and during that time serves other keys of the same lifetime.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::client::Repeat;
use super::cluster::Cluster;
use super::failure::Failure;
use super::proto::LeaseGrantRequest;
use super::rpc;
use crate::error::Result;

/// Maximum keys per lease, because etcd deletes them in one transaction.
const MAX_KEYS: u32 = 1000;

/// Maximum leases kept for reuse. Above it the oldest is no longer reused, and expires.
const MAX_OPEN: usize = 256;

/// Maximum additional lifetime of a key because of a shared lease.
const MAX_WINDOW: Duration = Duration::from_secs(60);

/// The same limit as a fraction (1/20) of the key's lifetime.
const WINDOW_SHARE: u32 = 20;

/// Etcd counts leases in seconds, so TTLs are rounded up by less than this.
const ROUNDING: Duration = Duration::from_secs(1);

/// Maximum TTL of a lease that etcd grants, in seconds.
const MAX_TTL_S: u64 = 9_000_000_000;

/// Leases that may serve more keys.
#[derive(Default)]
pub(super) struct Leases {
    open: Mutex<Vec<Lease>>,
}

struct Lease {
    id: i64,
    /// Earliest end of the lease. Monotonic: with wall time, a clock set back would make the lease look longer than
    /// it is, and keys would expire early.
    ends: Instant,
    keys: u32,
}

impl Cluster {
    /// Returns the id of a lease that ends `ttl` from now, or slightly later.
    pub(super) async fn lease(&self, ttl: Duration) -> Result<i64> {
        let now = Instant::now();
        if let Some(id) = choose(&mut self.leases.lock(), now, ttl) {
            return Ok(id);
        }
        let request = LeaseGrantRequest { ttl: seconds_to_ask(ttl) };
        // A grant whose response is lost leaves a lease without keys, which expires.
        let granted = self.client.call(&rpc::LEASE_GRANT, Repeat::Always, request).await;
        let granted = granted.map_err(Failure::into_read_error)?;
        let length = Duration::from_secs(granted.ttl.unsigned_abs());
        if let Some(ends) = now.checked_add(length) {
            keep(&mut self.leases.lock(), Lease { id: granted.id, ends, keys: 1 });
        }
        Ok(granted.id)
    }
}

impl Leases {
    /// Must be called when etcd does not know a lease, because it was revoked.
    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Lease>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum additional lifetime of a key with this TTL.
fn window(ttl: Duration) -> Duration {
    (ttl / WINDOW_SHARE).min(MAX_WINDOW)
}

fn seconds_to_ask(ttl: Duration) -> i64 {
    let length = ttl.saturating_add(window(ttl));
    let seconds = length.as_secs().saturating_add(u64::from(length.subsec_nanos() > 0));
    seconds.clamp(1, MAX_TTL_S) as i64
}

/// Uses an open lease that ends neither before nor long after `now + ttl`.
fn choose(open: &mut Vec<Lease>, now: Instant, ttl: Duration) -> Option<i64> {
    open.retain(|lease| lease.ends > now && lease.keys < MAX_KEYS);
    let earliest = now.checked_add(ttl)?;
    let latest = earliest.checked_add(window(ttl) + ROUNDING)?;
    let lease = open.iter_mut().find(|lease| earliest <= lease.ends && lease.ends <= latest)?;
    lease.keys += 1;
    Some(lease.id)
}

fn keep(open: &mut Vec<Lease>, lease: Lease) {
    if open.len() >= MAX_OPEN {
        open.remove(0);
    }
    open.push(lease);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn granted(now: Instant, id: i64, ttl: Duration) -> Lease {
        Lease { id, ends: now + seconds(seconds_to_ask(ttl).unsigned_abs()), keys: 1 }
    }

    #[test]
    fn a_lease_is_reused_within_its_window_and_never_ends_early() {
        let now = Instant::now();
        let mut open = vec![granted(now, 7, HOUR)];
        assert_eq!(choose(&mut open, now, HOUR), Some(7));
        assert_eq!(choose(&mut open, now + seconds(60), HOUR), Some(7));
        assert_eq!(choose(&mut open, now + seconds(61), HOUR), None, "it would expire early");
        assert_eq!(choose(&mut open, now, HOUR / 2), None, "it would expire late");
        assert_eq!(open[0].keys, 3);
    }

    #[test]
    fn each_lifetime_has_its_lease() {
        let now = Instant::now();
        let mut open = vec![granted(now, 1, seconds(10)), granted(now, 2, HOUR)];
        assert_eq!(choose(&mut open, now, HOUR), Some(2));
        assert_eq!(choose(&mut open, now, seconds(10)), Some(1));
    }

    #[test]
    fn full_and_ended_leases_are_left() {
        let now = Instant::now();
        let mut open = vec![granted(now, 1, HOUR), granted(now, 2, seconds(10))];
        open[0].keys = MAX_KEYS;
        assert_eq!(choose(&mut open, now + seconds(30), HOUR), None);
        assert!(open.is_empty());
    }

    #[test]
    fn the_number_of_open_leases_is_bounded() {
        let now = Instant::now();
        let mut open = Vec::new();
        for id in 0..=MAX_OPEN as i64 {
            keep(&mut open, granted(now, id, HOUR));
        }
        assert_eq!((open.len(), open[0].id), (MAX_OPEN, 1));
    }

    #[test]
    fn seconds_are_rounded_up_and_kept_in_etcds_bounds() {
        assert_eq!(seconds_to_ask(Duration::ZERO), 1);
        assert_eq!(seconds_to_ask(Duration::from_millis(1500)), 2);
        assert_eq!(seconds_to_ask(HOUR), 3660);
        assert_eq!(seconds_to_ask(Duration::MAX), MAX_TTL_S as i64);
        assert_eq!(choose(&mut Vec::new(), Instant::now(), Duration::MAX), None);
    }
}
