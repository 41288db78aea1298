//! Doing the same many times, carefully at first.

use futures_util::StreamExt;
use futures_util::stream::iter;

/// Requests of one reconcile that are on their way at a time. More would only wait in the server, and keep
/// others waiting there.
pub(crate) const MAX_IN_FLIGHT: usize = 16;

/// Does `attempt` `count` times, in batches of one, two, four and so on. If one of a batch fails there is no
/// further batch: a thousand pods that nobody admits are one refusal, not a thousand.
///
/// # Errors
/// The first failure, if any. Comes with the number of those that went well.
pub(crate) async fn slow_start<E, F: Future<Output = Result<(), E>>>(
    count: usize,
    attempt: impl Fn() -> F,
) -> (usize, Result<(), E>) {
    let (mut done, mut size) = (0, 1);
    while done < count {
        let batch = size.min(count - done);
        let outcomes: Vec<_> =
            iter((0..batch).map(|_| attempt())).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        done += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if let Some(error) = outcomes.into_iter().find_map(Result::err) {
            return (done, Err(error));
        }
        size *= 2;
    }
    (done, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Fails from the `allowed`-th attempt on. How many were made, how many went well, and whether all did.
    async fn attempts(count: usize, allowed: usize) -> (usize, usize, bool) {
        let made = AtomicUsize::new(0);
        let attempt =
            || async { if made.fetch_add(1, Ordering::Relaxed) < allowed { Ok(()) } else { Err("full") } };
        let (done, outcome) = slow_start(count, attempt).await;
        (made.load(Ordering::Relaxed), done, outcome.is_ok())
    }

    #[tokio::test]
    async fn batches_grow_until_one_fails() {
        assert_eq!(attempts(0, 0).await, (0, 0, true));
        assert_eq!(attempts(100, 1000).await, (100, 100, true));
        assert_eq!(attempts(100, 0).await, (1, 0, false));
        assert_eq!(attempts(100, 5).await, (7, 5, false), "1 and 2, and then 2 of 4");
        assert_eq!(attempts(5, 4).await, (5, 4, false));
    }
}
