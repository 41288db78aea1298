//! Events of a watch without waiting.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use coracle_store::{Result, Watch, WatchEvent};

/// The next event if it has arrived.
pub(super) fn next_arrived(watch: &mut Watch) -> Option<Result<WatchEvent>> {
    let mut context = Context::from_waker(Waker::noop());
    // Unconstrained: the task's budget says nothing about what has arrived.
    match pin!(tokio::task::unconstrained(watch.next())).poll(&mut context) {
        Poll::Ready(event) => Some(event),
        Poll::Pending => None,
    }
}
