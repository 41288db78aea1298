//! A watch channel: one value whose receivers wait for changes.
//!
//! Like `tokio::sync::watch`, except that waiting receivers are woken in the order in which they
//! began to wait, where tokio's order is arbitrary. The task woken first runs first, so with an
//! arbitrary order a run with many tasks could not be repeated.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

/// Error: the sender was dropped, so the value cannot change any more.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("watch channel closed: the sender was dropped")]
pub struct Closed;

struct Shared<T> {
    state: RwLock<State<T>>,
    changed: Notify,
}

struct State<T> {
    value: T,
    /// The number of changes so far.
    version: u64,
    is_closed: bool,
}

impl<T> Shared<T> {
    /// Ignores poisoning: each change of the state is a single step that does not panic, or a
    /// change whose caller keeps the state consistent.
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read guard of the current value. Hold it for a few lines only: it blocks the sender.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// The sending half, which changes the value.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Creates a channel with this initial value and no receivers.
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Self { shared: Arc::new(Shared { state, changed: Notify::new() }) }
    }

    /// Creates a receiver that waits for the next change.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.read().version;
        Receiver { shared: Arc::clone(&self.shared), seen }
    }

    /// Returns the current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// Replaces the value, wakes all receivers and returns the old value.
    pub fn send_replace(&self, value: T) -> T {
        let mut old = value;
        self.send_if_modified(|value| {
            std::mem::swap(value, &mut old);
            true
        });
        old
    }

    /// Calls `modify` on the value and wakes all receivers if it returns true. Returns the result
    /// of `modify`.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = {
            let mut state = self.shared.write();
            let modified = modify(&mut state.value);
            state.version += u64::from(modified);
            modified
        };
        if modified {
            self.shared.changed.notify_waiters();
        }
        modified
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.write().is_closed = true;
        self.shared.changed.notify_waiters();
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

/// The receiving half, which waits for changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version this receiver has seen last.
    seen: u64,
}

impl<T> Receiver<T> {
    /// Returns the current value without marking it as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// Returns the current value and marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.read();
        self.seen = state.version;
        Ref(state)
    }

    /// Waits until the value differs in version from the one last waited for or read with
    /// [`Receiver::borrow_and_update`]. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] if the sender was dropped.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let seen = self.seen;
        self.wait(|state| state.version != seen).await
    }

    /// Waits until `condition` returns true for the value; returns at once if it does so now.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] if the sender was dropped.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        self.wait(|state| condition(&state.value)).await
    }

    async fn wait(&mut self, mut condition: impl FnMut(&State<T>) -> bool) -> Result<(), Closed> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Register before reading the state, so that a change right after the read is not
            // missed.
            changed.as_mut().enable();
            {
                let state = self.shared.read();
                self.seen = state.version;
                if condition(&state) {
                    return Ok(());
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::Task;

    #[tokio::test]
    async fn receivers_are_woken_in_order_of_waiting() {
        let sender = Sender::new(0);
        let woken: Arc<Mutex<Vec<usize>>> = Arc::default();
        let waiting: Vec<_> = (0..50)
            .map(|number| {
                let (mut receiver, woken) = (sender.subscribe(), Arc::clone(&woken));
                Task::spawn("waiting", async move {
                    receiver.wait_for(|value| *value == 2).await.unwrap();
                    woken.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        for value in [1, 2] {
            assert_eq!(sender.send_replace(value), value - 1);
            tokio::task::yield_now().await;
        }
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn change_is_reported_once_per_receiver() {
        let sender = Sender::new("a");
        let mut receiver = sender.subscribe();
        sender.send_replace("b");
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), "b");
        assert!(!sender.send_if_modified(|_| false));
        sender.send_replace("c");
        assert_eq!(*receiver.borrow_and_update(), "c");
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Closed), "the last change was already seen");
        assert_eq!(receiver.wait_for(|value| *value == "c").await, Ok(()), "the condition holds");
    }
}
