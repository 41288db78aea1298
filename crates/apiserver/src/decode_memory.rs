//! Limits the memory of decoded request bodies, and the threads on which large ones are decoded.
//!
//! [`DecodeBudget`] limits one decoded body; this module limits the sum. A request reserves the budget of its body
//! before it decodes it, releases what the object does not need, and keeps the rest until it is answered. Requests that
//! do not fit wait. A request that is dropped while it waits, because its client disconnected, never starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coracle_api::codec::DecodeBudget;
use coracle_base::Task;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Refusal;

/// Bodies up to this size are decoded on the thread of the request, in about a millisecond. Larger ones may take a
/// hundred times as long; they are decoded on a blocking thread and from a memory pool of their own, so that they do
/// not delay the small ones that nearly all requests have.
const SMALL_BODY_BYTES: usize = 16 * 1024;

/// Memory for small bodies. While it is decoded, each reserves 3 MiB at most, on as many threads as there are;
/// afterwards a typical object keeps some 40 KiB, so that hundreds of requests are in flight.
const SMALL_POOL_BYTES: usize = 16 * 1024 * 1024;

/// Memory for large bodies: one with the largest possible decoded size, including the text it is read from, or several
/// typical ones of a megabyte. Together with the small bodies and one patch that copies, it is less than the 100 MiB
/// that an attack may cost.
const LARGE_POOL_BYTES: usize = 44 * 1024 * 1024;

/// Patches with copy operations that are applied at the same time. Such a patch is small and may make an object as
/// large as any body; others wait.
const MAX_COPYING_PATCHES: usize = 1;

/// A request keeps this multiple of the memory of its decoded object, because the object is changed by admission,
/// compared with its former state and encoded.
const COPIES_PER_OBJECT: usize = 2;

/// The unit in which memory is reserved, because a semaphore counts to 2^32 at most.
const UNIT_BYTES: usize = 1024;

const NEVER_CLOSED: &str = "the semaphores of DecodeMemory are never closed";

/// The memory for decoded bodies of all requests.
pub(crate) struct DecodeMemory {
    small: Pool,
    large: Pool,
    copying_patches: Arc<Semaphore>,
}

impl Default for DecodeMemory {
    fn default() -> Self {
        Self {
            small: Pool::new(SMALL_POOL_BYTES),
            large: Pool::new(LARGE_POOL_BYTES),
            copying_patches: Arc::new(Semaphore::new(MAX_COPYING_PATCHES)),
        }
    }
}

impl DecodeMemory {
    /// Decodes a body once the memory for its largest possible decoded size is reserved.
    ///
    /// Decoding stops soon after the returned future is dropped.
    pub(crate) async fn decode<T: Send + 'static, E: Send + 'static>(
        &self,
        body: Bytes,
        decode: impl FnOnce(&[u8], &mut DecodeBudget) -> Result<T, E> + Send + 'static,
    ) -> Result<(Result<T, E>, Reservation), Refusal> {
        let budget = DecodeBudget::for_body(body.len());
        if body.len() <= SMALL_BODY_BYTES {
            let reserved = self.small.reserve(budget.limit()).await;
            return Ok(run(&body, decode, budget, reserved));
        }
        let reserved = self.large.reserve(budget.limit()).await;
        let stop = StopOnDrop::default();
        let budget = budget.stopped_by(stop.0.clone());
        // The thread holds the reservation until it ends, even if the request has been dropped.
        let decoding = Task::spawn_blocking("decode", move || run(&body, decode, budget, reserved));
        Ok(decoding.await?)
    }

    /// Waits until a patch with copy operations may be applied.
    ///
    /// A request that holds this reservation waits for no other memory, so that two requests cannot deadlock.
    pub(crate) async fn reserve_copies(&self) -> Reservation {
        let permit = self.copying_patches.clone().acquire_owned().await;
        Reservation(Some(permit.expect(NEVER_CLOSED)))
    }
}

fn run<T, E>(
    body: &[u8],
    decode: impl FnOnce(&[u8], &mut DecodeBudget) -> Result<T, E>,
    mut budget: DecodeBudget,
    mut reserved: Reservation,
) -> (Result<T, E>, Reservation) {
    let decoded = decode(body, &mut budget);
    reserved.shrink(if decoded.is_ok() { budget.spent() * COPIES_PER_OBJECT } else { 0 });
    (decoded, reserved)
}

#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Pool(Arc<Semaphore>);

impl Pool {
    fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT_BYTES)))
    }

    async fn reserve(&self, bytes: usize) -> Reservation {
        let permit = self.0.clone().acquire_many_owned(units(bytes)).await;
        Reservation(Some(permit.expect(NEVER_CLOSED)))
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// Memory reserved for one request until it is dropped.
pub(crate) struct Reservation(Option<OwnedSemaphorePermit>);

impl Reservation {
    /// Releases all but `bytes`.
    fn shrink(&mut self, bytes: usize) {
        let Some(permit) = &mut self.0 else { return };
        let kept = usize::try_from(units(bytes)).unwrap_or(usize::MAX);
        drop(permit.split(permit.num_permits().saturating_sub(kept)));
    }
}

/// The reservations of a request, released when it ends.
#[derive(Default)]
pub(crate) struct Reservations(Mutex<Vec<Reservation>>);

impl Reservations {
    pub(crate) fn keep(&self, reservation: Reservation) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    }
}

#[cfg(test)]
mod tests {
    use coracle_meta::budget::BudgetError;
    use futures_util::FutureExt;

    use super::*;

    fn large_body() -> Bytes {
        vec![0; SMALL_BODY_BYTES + 1].into()
    }

    /// Charges the whole budget.
    fn spend_all(_: &[u8], budget: &mut DecodeBudget) -> Result<(), BudgetError> {
        budget.charge(budget.limit())
    }

    #[tokio::test]
    async fn requests_beyond_the_pool_wait_until_others_have_ended() {
        let memory = DecodeMemory::default();
        let body = Bytes::from(vec![0; SMALL_BODY_BYTES]);
        let mut held = Vec::new();
        while let Some(decoded) = memory.decode(body.clone(), spend_all).now_or_never() {
            held.push(decoded.unwrap());
        }
        let limit = DecodeBudget::for_body(body.len()).limit();
        assert_eq!(held.len(), SMALL_POOL_BYTES / limit);
        held.pop();
        assert!(memory.decode(body, spend_all).now_or_never().is_some());
    }

    #[tokio::test]
    async fn large_bodies_do_not_hold_up_small_ones() {
        let memory = DecodeMemory::default();
        let all = u32::try_from(LARGE_POOL_BYTES / UNIT_BYTES).unwrap();
        let _all = memory.large.0.clone().acquire_many_owned(all).await.unwrap();
        assert!(memory.decode(large_body(), spend_all).now_or_never().is_none());
        assert!(memory.decode(Bytes::from_static(b"{}"), spend_all).now_or_never().is_some());
    }

    #[tokio::test]
    async fn patches_with_copies_are_applied_one_after_the_other() {
        let memory = DecodeMemory::default();
        let first = memory.reserve_copies().await;
        assert!(memory.reserve_copies().now_or_never().is_none());
        drop(first);
        assert!(memory.reserve_copies().now_or_never().is_some());
    }

    #[tokio::test]
    async fn decoding_releases_memory_the_object_does_not_need() {
        let memory = DecodeMemory::default();
        let decoded = memory.decode(large_body(), |_, budget| budget.charge(UNIT_BYTES)).await;
        let free = memory.large.0.available_permits();
        assert_eq!(free, LARGE_POOL_BYTES / UNIT_BYTES - COPIES_PER_OBJECT);
        drop(decoded);
        assert_eq!(memory.large.0.available_permits(), LARGE_POOL_BYTES / UNIT_BYTES);
    }

    #[tokio::test]
    async fn dropped_request_stops_its_decoder_and_frees_its_memory() {
        let memory = DecodeMemory::default();
        let (started, starts) = tokio::sync::oneshot::channel();
        let endless = move |_: &[u8], budget: &mut DecodeBudget| {
            started.send(()).unwrap();
            while budget.charge(0).is_ok() {}
            budget.check()
        };
        {
            let decoding = memory.decode(large_body(), endless);
            tokio::select! {
                _ = decoding => panic!("it cannot end by itself"),
                started = starts => started.unwrap(),
            }
        }
        let all = u32::try_from(LARGE_POOL_BYTES / UNIT_BYTES).unwrap();
        assert!(memory.large.0.acquire_many(all).await.is_ok());
    }
}
