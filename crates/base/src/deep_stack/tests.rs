//! Recursion that overflows the stack of a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Task;

/// Number of recursions that overflows a thread's own stack.
const DEEP: usize = 100_000;

#[inline(never)]
fn recurse(levels: usize) -> usize {
    let frame = std::hint::black_box([levels; 64]);
    if levels == 0 { 0 } else { frame.len() / 64 + recurse(levels - 1) }
}

/// A value that recurses when it is dropped.
struct DeepDrop(Arc<AtomicUsize>);

impl Drop for DeepDrop {
    fn drop(&mut self) {
        self.0.fetch_add(recurse(DEEP), Ordering::Relaxed);
    }
}

#[test]
fn run_allows_deep_recursion() {
    assert_eq!(run(|| recurse(DEEP)), DEEP);
    assert_eq!(run(|| run(|| recurse(DEEP))), DEEP, "a nested call");
}

#[test]
fn panic_propagates_to_caller_and_stack_is_reused() {
    let panic = std::panic::catch_unwind(|| run(|| panic!("below"))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"below"));
    assert!(!IS_DEEP.get());
    assert_eq!(run(|| recurse(DEEP)), DEEP);
}

#[test]
fn wrapped_value_is_dropped_on_deep_stack() {
    let dropped = Arc::new(AtomicUsize::new(0));
    drop(OnDeepStack::new(DeepDrop(dropped.clone())));
    assert_eq!(dropped.load(Ordering::Relaxed), DEEP);
    let value = OnDeepStack::new(DeepDrop(dropped.clone())).into_inner();
    run(|| drop(value));
    assert_eq!(dropped.load(Ordering::Relaxed), 2 * DEEP);
}

#[test]
fn trimmed_stack_is_usable() {
    for _ in 0..=USES_BETWEEN_TRIMS {
        run(|| ());
    }
    assert_eq!(run(|| recurse(DEEP)), DEEP);
    let mut stack = Stack::new();
    assert_eq!(stack.call(|| recurse(DEEP)).unwrap(), DEEP);
    stack.trim();
    assert_eq!(stack.call(|| recurse(DEEP)).unwrap(), DEEP);
}

#[test]
fn run_in_thread_local_destructor_succeeds() {
    struct AtExit(Arc<AtomicUsize>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            self.0.fetch_add(run(|| recurse(DEEP)), Ordering::Relaxed);
        }
    }
    thread_local!(static LATE: Cell<Option<AtExit>> = const { Cell::new(None) });
    let done = Arc::new(AtomicUsize::new(0));
    let at_exit = AtExit(done.clone());
    let thread = std::thread::spawn(move || {
        LATE.set(Some(at_exit));
        run(|| recurse(DEEP))
    });
    assert_eq!(thread.join().unwrap(), DEEP);
    assert_eq!(done.load(Ordering::Relaxed), DEEP);
}

#[tokio::test]
async fn task_runs_on_deep_stack() {
    assert_eq!(Task::spawn("deep", async { recurse(DEEP) }).await.unwrap(), DEEP);
    assert_eq!(Task::spawn_blocking("deep", || recurse(DEEP)).await.unwrap(), DEEP);
}

#[tokio::test]
async fn cancelled_task_drops_its_state_on_deep_stack() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let held = DeepDrop(dropped.clone());
    let task = Task::spawn("endless", async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    drop(task);
    while dropped.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn unread_task_result_is_dropped_on_deep_stack() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let result = dropped.clone();
    drop(Task::spawn("finished", async move { DeepDrop(result) }));
    let result = dropped.clone();
    let task = Task::spawn("finished", async move { DeepDrop(result) });
    tokio::task::yield_now().await;
    drop(task);
    while dropped.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
}
