//! The reference engine: everything in memory, nothing kept. For tests and throw-away
//! clusters.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::{Clock, Task};

use crate::compact::CompactionPolicy;
use crate::engine::{BoxFuture, Engine, Stats};
use crate::error::{Error, Result};
use crate::history::History;
use crate::index::Index;
use crate::keeper::{self, Kept};
use crate::local::Local;
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};
use crate::watch::{Watch, WatchRequest};

/// Settings of the memory engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where time comes from.
    pub clock: Clock,
    /// How much history to keep.
    pub compaction: CompactionPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Clock::system(), compaction: CompactionPolicy::default() }
    }
}

/// An empty store. Needs a tokio runtime for its two tasks.
pub fn open(options: Options) -> Store {
    let index = Index::empty(Revision::INITIAL);
    let local =
        Local::new(index.clone(), History::starting_at(Revision::INITIAL), options.clock, options.compaction);
    let shared = Arc::new(Shared { local: Arc::new(local), working: Mutex::new(index) });
    let tasks = spawn_tasks(&shared);
    Store::new(Arc::new(Memory { shared, tasks: Mutex::new(tasks) }))
}

struct Memory {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<Task<()>>>,
}

struct Shared {
    local: Arc<Local>,
    /// Held for one transaction at a time, never across an await.
    working: Mutex<Index>,
}

fn spawn_tasks(shared: &Arc<Shared>) -> Vec<Task<()>> {
    let local = shared.local.clone();
    let dispatch = async move { local.hub.dispatch(&local.history, &local.closed).await };
    vec![Task::spawn("store-hub", dispatch), Task::spawn("store-keeper", keeper::run(shared.clone()))]
}

impl Shared {
    fn commit(&self, txn: Txn) -> Result<Committed> {
        self.local.check_open()?;
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let staged = working.stage(txn, self.local.clock.now())?;
        if let Some((commit, _)) = staged.effect {
            self.local.publish(working.clone(), &[commit]);
        }
        Ok(staged.committed)
    }

    async fn compact(&self, oldest: Revision) -> Result<()> {
        self.local.check_open()?;
        let current = self.local.snapshot().revision();
        if oldest > current {
            return Err(Error::FutureRevision { requested: oldest, current });
        }
        let dead = self.local.forget(oldest).await?;
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        dead.iter().for_each(|tombstone| working.purge(tombstone));
        self.local.publish(working.clone(), &[]);
        Ok(())
    }
}

impl Drop for Memory {
    /// Ends the tasks of a store that nobody closed.
    fn drop(&mut self) {
        self.shared.local.closed.cancel();
    }
}

impl Kept for Shared {
    fn local(&self) -> &Arc<Local> {
        &self.local
    }

    fn delete(&self, txn: Txn) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.commit(txn).map(drop) })
    }

    fn compact_to(&self, oldest: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.compact(oldest))
    }

    fn after_compaction(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

impl Engine for Memory {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(async move { self.shared.local.get(key, at) })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(async move { self.shared.local.range(&request) })
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(async move { self.shared.local.count(prefix, at) })
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move { self.shared.commit(txn) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(async move { self.shared.local.watch(request) })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.compact(revision))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move { Ok(self.shared.local.stats("memory")) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.local.closed.cancel();
            let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            for task in tasks {
                // A panic has been printed by the hook; the store is closed either way.
                let _ = task.await;
            }
        })
    }
}
