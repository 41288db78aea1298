//! A large stack for code that recurses over values.
//!
//! Objects may be nested 10 000 levels deep, as in kube-apiserver, and all code that reads, compares, copies or drops a
//! tree recurses once per level. The stacks of threads are too small for that, and the embedding program, which owns the
//! runtime, chooses their size. So requests, response bodies and tasks run on a stack of our own: [`run`] switches to it
//! for one call, and [`OnDeepStack`] for each poll of a future and for its drop.
//!
//! Each thread that runs such code keeps one stack of [`STACK_BYTES`] of address space, of which the kernel provides
//! only the pages that are touched. A switch costs some nanoseconds; a nested call only checks a flag.

#[expect(unsafe_code, reason = "switching to another stack, and the system calls that provide it")]
mod memory;

use std::cell::Cell;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use memory::Stack;

pub use memory::STACK_BYTES;

/// Number of uses after which pages that only a deep value has touched are returned to the kernel. It is small enough to
/// release them soon, and large enough that the cost of the system call is negligible.
const USES_BETWEEN_TRIMS: u32 = 4096;

thread_local! {
    /// Whether this thread is running on its deep stack.
    static IS_DEEP: Cell<bool> = const { Cell::new(false) };
    /// The stack of this thread while no call runs on it; none before the first use.
    static IDLE: Cell<Option<Stack>> = const { Cell::new(None) };
    static USES: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work` on the deep stack of this thread.
///
/// # Panics
/// If `work` panics, or if the system cannot provide the memory of the stack.
pub fn run<R>(work: impl FnOnce() -> R) -> R {
    if IS_DEEP.get() {
        return work();
    }
    let mut work = Some(work);
    let mut result = None;
    switch(&mut || result = work.take().map(|work| work()));
    result.expect("`switch` calls its argument once, or panics")
}

/// The non-generic part of [`run`].
fn switch(work: &mut dyn FnMut()) {
    // The thread-local is gone while the thread exits; then a new stack is mapped and unmapped afterwards.
    let mut stack = IDLE.try_with(Cell::take).ok().flatten().unwrap_or_else(Stack::new);
    IS_DEEP.set(true);
    let outcome = stack.call(work);
    IS_DEEP.set(false);
    let uses = USES.get().wrapping_add(1);
    USES.set(uses);
    if uses.is_multiple_of(USES_BETWEEN_TRIMS) {
        stack.trim();
    }
    // Unmaps the stack if the thread is exiting.
    let _is_kept = IDLE.try_with(|idle| idle.set(Some(stack)));
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// A value that is dropped on the deep stack. If it is a future, it is also polled there.
#[derive(Debug)]
pub struct OnDeepStack<T>(Option<T>);

/// Panic message for a missing value, which is a bug: only [`OnDeepStack::into_inner`] and the drop take the value, and both
/// end the wrapper.
const VALUE_MISSING: &str = "only `into_inner` and `drop` take the value";

impl<T> OnDeepStack<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Borrows the value.
    pub fn value(&self) -> &T {
        self.0.as_ref().expect(VALUE_MISSING)
    }

    /// Borrows the value mutably.
    pub fn value_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(VALUE_MISSING)
    }

    /// Unwraps the value. The caller must drop it on the deep stack.
    pub fn into_inner(mut self) -> T {
        self.0.take().expect(VALUE_MISSING)
    }
}

impl<F: Future + Unpin> Future for OnDeepStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = Pin::new(self.value_mut());
        run(|| future.poll(context))
    }
}

impl<T> Drop for OnDeepStack<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            run(|| drop(value));
        }
    }
}

#[cfg(test)]
mod tests;
