//! The reference engine: all data is in memory and lost on exit. For tests and throw-away clusters.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Clock;

use super::local::{Writer, serve};
use crate::compact::CompactionPolicy;
use crate::engine::{BoxFuture, Stats};
use crate::error::Result;
use crate::history::History;
use crate::index::Index;
use crate::local::Local;
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};

/// Settings of the memory engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The clock.
    pub clock: Clock,
    /// How much history to keep.
    pub compaction: CompactionPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Clock::system(), compaction: CompactionPolicy::default() }
    }
}

/// Opens an empty store. Needs a tokio runtime for its two tasks.
pub fn open(options: Options) -> Store {
    let index = Index::empty(Revision::INITIAL);
    let history = History::starting_at(Revision::INITIAL);
    let local = Local::new(index.clone(), history, options.clock, options.compaction);
    serve(Arc::new(Memory { local: Arc::new(local), working: Mutex::new(index) }))
}

struct Memory {
    local: Arc<Local>,
    /// Locked for one transaction at a time, never across an await.
    working: Mutex<Index>,
}

impl Memory {
    fn commit_now(&self, txn: Txn) -> Result<Committed> {
        self.local.check_open()?;
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let staged = working.stage(txn, self.local.clock.now())?;
        if let Some((commit, _)) = staged.effect {
            self.local.publish(working.clone(), &[commit]);
        }
        Ok(staged.committed)
    }
}

impl Writer for Memory {
    fn local(&self) -> &Arc<Local> {
        &self.local
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move { self.commit_now(txn) })
    }

    fn compact(&self, oldest: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.local.check_compactable(oldest)?;
            let dead = self.local.forget(oldest).await?;
            let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
            dead.iter().for_each(|tombstone| working.purge(tombstone));
            self.local.publish(working.clone(), &[]);
            Ok(())
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async { Ok(self.local.stats("memory")) })
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
