//! Ends responses and connections whose client does not read.
//!
//! A response over HTTP/2 is written by a task of its own: dropping that task resets the stream. Over HTTP/1.1 the
//! connection writes it, and ends with it. Bytes that HTTP/2 still has queued after the task of a response has ended
//! can be dropped only with the connection.

use std::cell::OnceCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::flow::{Unread, Verdict};

tokio::task_local! {
    /// The response that the task of an HTTP/2 stream writes; set when the service has returned it.
    static WRITTEN: OnceCell<Arc<Unread>>;
}

/// Records the response that this task writes, if it is the task of an HTTP/2 stream.
pub(super) fn writes(unread: &Arc<Unread>) {
    // Outside the task of a stream there is no task to end.
    let _ = WRITTEN.try_with(|written| written.set(unread.clone()));
}

/// Runs the task of an HTTP/2 stream until it ends or its client has not read for too long.
pub(super) async fn run_stream(stream: impl Future<Output = ()>) {
    let stream = pin!(stream);
    WRITTEN.scope(OnceCell::new(), UntilStalled::new(stream, StreamResponse::default())).await;
}

/// Responses that the connection's task monitors: HTTP/1.1 responses, and the queued ends of HTTP/2 responses.
#[derive(Default)]
pub(super) struct Stalls {
    responses: Mutex<Vec<Arc<Unread>>>,
    connection: AtomicWaker,
}

impl Stalls {
    /// Monitors a response until it has been written. An HTTP/1.1 response is passed twice: when it begins, and when
    /// its end is queued. It is listed once, since a second entry would keep the first alive.
    pub(super) fn watch(&self, unread: Arc<Unread>) {
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        if !responses.iter().any(|other| Arc::ptr_eq(other, &unread)) {
            responses.push(unread);
        }
        drop(responses);
        self.connection.wake();
    }
}

/// Runs a connection until it ends; returns none if it was aborted because its client does not read.
pub(super) fn run_connection<F: Future>(
    connection: Pin<&mut F>,
    stalls: Arc<Stalls>,
) -> impl Future<Output = Option<F::Output>> {
    UntilStalled::new(connection, stalls)
}

/// The output of a task.
trait Written {
    /// Returns the verdict over all responses. Registers `writer`, which is woken when a response is ended.
    fn judge(&mut self, writer: &Waker) -> Verdict;
}

#[derive(Default)]
struct StreamResponse(Option<Arc<Unread>>);

impl Written for StreamResponse {
    fn judge(&mut self, writer: &Waker) -> Verdict {
        if self.0.is_none() {
            self.0 = WRITTEN.try_with(|written| written.get().cloned()).ok().flatten();
        }
        let Some(unread) = &self.0 else { return Verdict::Idle };
        unread.register(writer);
        unread.judge_and_end()
    }
}

impl Written for Arc<Stalls> {
    fn judge(&mut self, writer: &Waker) -> Verdict {
        self.connection.register(writer);
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        // A response without other references has been written.
        responses.retain(|unread| Arc::strong_count(unread) > 1);
        let mut first = Verdict::Idle;
        for unread in responses.iter() {
            unread.register(writer);
            first = match (first, unread.judge_and_end()) {
                (Verdict::End, _) | (_, Verdict::End) => Verdict::End,
                (Verdict::Until(a), Verdict::Until(b)) => Verdict::Until(a.min(b)),
                (Verdict::Idle, other) | (other, Verdict::Idle) => other,
            };
        }
        first
    }
}

/// A future that completes early when the responses that it writes stall.
struct UntilStalled<'a, F, W> {
    inner: Pin<&'a mut F>,
    written: W,
    /// Created when a response waits for its client, and kept until it fires.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, F, W> UntilStalled<'a, F, W> {
    fn new(inner: Pin<&'a mut F>, written: W) -> Self {
        Self { inner, written, timer: None }
    }

    /// Wakes the task at `at` or earlier.
    fn wake_at(&mut self, at: Instant, cx: &mut Context<'_>) {
        match &mut self.timer {
            // The timer may fire early and is then reset, which costs less than a reset for every event.
            Some(timer) if !timer.is_elapsed() && timer.deadline() <= at => return,
            Some(timer) => timer.as_mut().reset(at),
            None => self.timer = Some(Box::pin(sleep_until(at))),
        }
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
    }
}

impl<F: Future, W: Written + Unpin> Future for UntilStalled<'_, F, W> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(output) = this.inner.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        match this.written.judge(cx.waker()) {
            Verdict::Idle => {
                this.timer.take_if(|timer| timer.is_elapsed());
            }
            Verdict::Until(at) => this.wake_at(at, cx),
            Verdict::End => {
                tracing::debug!("ending a response that its client does not read");
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_that_is_watched_twice_is_forgotten_once_it_is_written() {
        let mut stalls = Arc::<Stalls>::default();
        for _ in 0..3 {
            let unread = Unread::new();
            let charge = unread.charge(10);
            // As over HTTP/1.1: when the response begins, and when its body is gone before the last byte.
            stalls.watch(unread.clone());
            stalls.watch(unread);
            assert!(matches!(stalls.judge(Waker::noop()), Verdict::Until(_)));
            assert_eq!(stalls.responses.lock().unwrap().len(), 1);
            drop(charge);
            assert_eq!(stalls.judge(Waker::noop()), Verdict::Idle);
            assert_eq!(stalls.responses.lock().unwrap().len(), 0);
        }
    }
}
