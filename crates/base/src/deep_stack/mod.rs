//! A large stack for code that recurses over values.
//!
//! Objects may be nested as deep as kube-apiserver allows (10 000 levels), and everything that reads, compares, copies
//! or frees a tree recurses once per level. The stacks of threads are too small for that, and in a library their size is
//! the choice of whoever made the runtime. So requests, response bodies and tasks run on a stack of our own: [`run`]
//! switches to it for one call, and [`OnDeepStack`] for each poll of a future and for its drop.
//!
//! Each thread that runs such code keeps one stack of [`STACK_BYTES`] of address space, of which the kernel provides
//! only the pages that are touched. Switching costs some nanoseconds; a call from code that is on the stack already
//! costs a look at a flag.

#[expect(unsafe_code, reason = "switching to another stack, and the system calls that provide it")]
mod memory;

use std::cell::Cell;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use memory::Stack;

pub use memory::STACK_BYTES;

/// After so many uses the pages that only a deep value has touched go back to the kernel. Often enough that they do not
/// stay for long, seldom enough that the system call does not count.
const USES_BETWEEN_TRIMS: u32 = 4096;

thread_local! {
    /// Whether this thread is on its deep stack now.
    static IS_DEEP: Cell<bool> = const { Cell::new(false) };
    /// The stack of this thread while it is not in use; none before the first use.
    static IDLE: Cell<Option<Stack>> = const { Cell::new(None) };
    static USES: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work` on the deep stack of this thread.
///
/// # Panics
/// If `work` does, or if the system refuses the memory of the stack.
pub fn run<R>(work: impl FnOnce() -> R) -> R {
    if IS_DEEP.get() {
        return work();
    }
    let mut work = Some(work);
    let mut result = None;
    switch(&mut || result = work.take().map(|work| work()));
    result.expect("the stack runs what it is given once, or passes on its panic")
}

/// The part of [`run`] that is the same for all types.
fn switch(work: &mut dyn FnMut()) {
    // A thread that is ending has no place for a stack any more, and frees this one afterwards.
    let mut stack = IDLE.try_with(Cell::take).ok().flatten().unwrap_or_else(Stack::new);
    IS_DEEP.set(true);
    let outcome = stack.call(work);
    IS_DEEP.set(false);
    let uses = USES.get().wrapping_add(1);
    USES.set(uses);
    if uses.is_multiple_of(USES_BETWEEN_TRIMS) {
        stack.trim();
    }
    // Drops it where the thread is ending.
    let _is_kept = IDLE.try_with(|idle| idle.set(Some(stack)));
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// A value that is dropped on the deep stack and, if it is a future, polled there.
#[derive(Debug)]
pub struct OnDeepStack<T>(Option<T>);

/// Why the value is there: only [`OnDeepStack::into_inner`] and the drop take it, and nothing comes after them.
const TAKEN_AT_THE_END: &str = "the value is taken at the end only";

impl<T> OnDeepStack<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// The value.
    pub fn value(&self) -> &T {
        self.0.as_ref().expect(TAKEN_AT_THE_END)
    }

    /// The value, to change it.
    pub fn value_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(TAKEN_AT_THE_END)
    }

    /// The value, which the caller drops.
    pub fn into_inner(mut self) -> T {
        self.0.take().expect(TAKEN_AT_THE_END)
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
