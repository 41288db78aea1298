//! A value that others wait for.
//!
//! As `tokio::sync::watch`, but for one thing: those who wait are woken in the order in which they began to, and
//! not in any order. What is woken first acts first, so without it no run with many tasks could be repeated.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

/// Nobody can change the value any more.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody can change the value any more")]
pub struct Closed;

struct Shared<T> {
    state: RwLock<State<T>>,
    changed: Notify,
}

struct State<T> {
    value: T,
    /// Counts the changes.
    version: u64,
    is_closed: bool,
}

impl<T> Shared<T> {
    /// Values are replaced in single steps by those who cannot panic meanwhile, or see to it.
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value as it is. Held for a few lines only: whoever changes it waits.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// Who changes the value.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A value that nobody waits for yet.
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Self { shared: Arc::new(Shared { state, changed: Notify::new() }) }
    }

    /// Somebody who waits for the next change.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.shared.read().version;
        Receiver { shared: Arc::clone(&self.shared), seen }
    }

    /// The value now.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// Changes the value and wakes everybody. What it was before.
    pub fn send_replace(&self, value: T) -> T {
        let mut old = value;
        self.send_if_modified(|value| {
            std::mem::swap(value, &mut old);
            true
        });
        old
    }

    /// Changes the value, and wakes everybody if `modify` says that it did. Whether it did.
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

/// Who waits for changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was looked at last.
    seen: u64,
}

impl<T> Receiver<T> {
    /// The value now.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// The value now, which is not waited for again.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.read();
        self.seen = state.version;
        Ref(state)
    }

    /// Returns when the value has been changed since it was last waited for or looked at with
    /// [`Receiver::borrow_and_update`]. Safe to drop.
    ///
    /// # Errors
    /// If nobody can change it any more.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let seen = self.seen;
        self.wait(|state| state.version != seen).await
    }

    /// Returns when the value is as `is_so` says, which may be at once. Safe to drop.
    ///
    /// # Errors
    /// If nobody can change it any more.
    pub async fn wait_for(&mut self, mut is_so: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        self.wait(|state| is_so(&state.value)).await
    }

    async fn wait(&mut self, mut is_so: impl FnMut(&State<T>) -> bool) -> Result<(), Closed> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Before the look, so that what changes right after it is not missed.
            changed.as_mut().enable();
            {
                let state = self.shared.read();
                self.seen = state.version;
                if is_so(&state) {
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
    async fn all_are_woken_in_the_order_in_which_they_began_to_wait() {
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
    async fn a_change_is_seen_once() {
        let sender = Sender::new("a");
        let mut receiver = sender.subscribe();
        sender.send_replace("b");
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), "b");
        assert!(!sender.send_if_modified(|_| false));
        sender.send_replace("c");
        assert_eq!(*receiver.borrow_and_update(), "c");
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Closed), "it was looked at");
        assert_eq!(receiver.wait_for(|value| *value == "c").await, Ok(()), "it is so");
    }
}
