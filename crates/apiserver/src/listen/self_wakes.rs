//! Polls a connection again at once when it wakes itself.
//!
//! A connection over HTTP/1.1 is one task: the futures that read the request, serve it and write the response wake each
//! other while the task runs. Tokio puts such a task at the end of its queue and wakes another worker to steal it,
//! which on a machine that is otherwise idle takes several times as long as the poll itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Consecutive polls before the task yields to other tasks. A request with a body takes two, its response two more.
const MAX_POLLS: usize = 8;

/// The future is not being polled: a wake-up wakes its task.
const IDLE: u8 = 0;
/// The future is being polled.
const POLLED: u8 = 1;
/// The future is being polled, and was woken meanwhile: it is polled again.
const WOKEN: u8 = 2;

/// A future that is polled again at once when it wakes itself.
pub(super) struct PollAgain<'a, F> {
    inner: Pin<&'a mut F>,
    state: Arc<State>,
    waker: Waker,
}

struct State {
    phase: AtomicU8,
    task: AtomicWaker,
}

impl<'a, F: Future> PollAgain<'a, F> {
    pub(super) fn new(inner: Pin<&'a mut F>) -> Self {
        let state = Arc::new(State { phase: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        Self { inner, waker: state.clone().into(), state }
    }
}

impl<F: Future> Future for PollAgain<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { inner, state, waker } = &mut *self;
        state.task.register(cx.waker());
        for _ in 0..MAX_POLLS {
            state.phase.store(POLLED, Ordering::SeqCst);
            if let Poll::Ready(output) = inner.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let is_done = state.phase.compare_exchange(POLLED, IDLE, Ordering::SeqCst, Ordering::SeqCst);
            if is_done.is_ok() {
                return Poll::Pending;
            }
        }
        state.phase.store(IDLE, Ordering::SeqCst);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.phase.compare_exchange(POLLED, WOKEN, Ordering::SeqCst, Ordering::SeqCst);
        if noted == Err(IDLE) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A future that wakes itself `times` times, and then waits for another task to use its waker.
    fn busy(mut times: usize, seen: &mut Option<Waker>) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            if times > 0 {
                times -= 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if seen.replace(cx.waker().clone()).is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    #[test]
    fn future_that_wakes_itself_is_polled_again_without_waking_its_task() {
        let (wakes, mut seen) = (Arc::<Wakes>::default(), None);
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        {
            let inner = pin!(busy(3, &mut seen));
            assert!(pin!(PollAgain::new(inner)).poll(&mut cx).is_pending());
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        seen.expect("the fourth poll waits").wake();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "from outside the task is woken");
    }

    #[test]
    fn future_that_always_wakes_itself_yields_to_other_tasks() {
        let (wakes, mut seen) = (Arc::<Wakes>::default(), None);
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let inner = pin!(busy(MAX_POLLS + 1, &mut seen));
        let mut again = pin!(PollAgain::new(inner));
        assert!(again.as_mut().poll(&mut cx).is_pending());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "it is queued");
        assert!(again.as_mut().poll(&mut cx).is_pending());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "it waits now");
        assert!(again.poll(&mut cx).is_ready());
    }
}
