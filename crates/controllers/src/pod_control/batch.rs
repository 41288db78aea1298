//! Batches of requests that start small.

use futures_util::StreamExt;
use futures_util::stream::iter;

/// Maximum number of concurrent requests of one reconcile. More would only wait in the server, and delay others
/// there.
pub(crate) const MAX_IN_FLIGHT: usize = 16;

/// Calls `attempt` `count` times, in batches of one, two, four and so on. A failure prevents further batches: a
/// thousand pods that admission rejects cause one rejection, not a thousand.
///
/// # Errors
/// Returns the first failure with the number of successes.
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

    /// Fails from the `allowed`-th attempt on. Returns the number of attempts, of successes, and whether all
    /// succeeded.
    async fn attempts(count: usize, allowed: usize) -> (usize, usize, bool) {
        let attempts = AtomicUsize::new(0);
        let attempt = || async {
            if attempts.fetch_add(1, Ordering::Relaxed) < allowed { Ok(()) } else { Err("full") }
        };
        let (done, outcome) = slow_start(count, attempt).await;
        (attempts.load(Ordering::Relaxed), done, outcome.is_ok())
    }

    #[tokio::test]
    async fn slow_start_doubles_batches_until_a_failure() {
        assert_eq!(attempts(0, 0).await, (0, 0, true));
        assert_eq!(attempts(100, 1000).await, (100, 100, true));
        assert_eq!(attempts(100, 0).await, (1, 0, false));
        assert_eq!(attempts(100, 5).await, (7, 5, false), "1 and 2, and then 2 of 4");
        assert_eq!(attempts(5, 4).await, (5, 4, false));
    }
}
