//! Common parts of the in-process engines: everything except the writer.

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Task;
use tokio::sync::{mpsc, oneshot};

use crate::engine::{BoxFuture, Engine, Stats};
use crate::error::{Error, Result};
use crate::keeper::{self, CompactRequest};
use crate::local::Local;
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};
use crate::watch::{Watch, WatchRequest};

/// The writer of an in-process store, which makes writes durable or keeps them in memory.
pub(crate) trait Writer: Send + Sync + 'static {
    /// The state to publish to.
    fn local(&self) -> &Arc<Local>;

    /// See [`Engine::commit`].
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>>;

    /// See [`Engine::commit_window`].
    fn commit_window(&self) -> usize {
        1
    }

    /// See [`Engine::compact`]. Called by the keeper only, sequentially and to completion, so that implementations
    /// need not handle cancellation or concurrent calls.
    fn compact(&self, oldest: Revision) -> BoxFuture<'_, Result<()>>;

    /// See [`Engine::stats`].
    fn stats(&self) -> BoxFuture<'_, Result<Stats>>;

    /// Tests whether writes that were rejected for lack of space would succeed now, and records the result.
    fn retest_space(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Stops the writer, after the tasks that use it.
    fn finish(&self) -> BoxFuture<'_, Result<()>>;
}

/// Creates a store from a writer, and starts the two tasks of every in-process store.
pub(crate) fn serve(writer: Arc<impl Writer>) -> Store {
    let local = writer.local().clone();
    let dispatch = async move { local.hub.dispatch(&local.history, &local.closed).await };
    let (compactions, requests) = mpsc::channel(WAITING_COMPACTIONS);
    let keeper = keeper::run(writer.clone(), requests);
    let tasks = vec![Task::spawn("store-hub", dispatch), Task::spawn("store-keeper", keeper)];
    Store::new(Arc::new(LocalEngine { writer, compactions, tasks: Mutex::new(tasks) }))
}

/// Requested compactions that may wait for the keeper; further callers wait to enqueue theirs.
const WAITING_COMPACTIONS: usize = 16;

struct LocalEngine<W: Writer> {
    writer: Arc<W>,
    compactions: mpsc::Sender<CompactRequest>,
    tasks: Mutex<Vec<Task<()>>>,
}

impl<W: Writer> Engine for LocalEngine<W> {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(async move { self.writer.local().get(key, at) })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(async move { self.writer.local().range(&request) })
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(async move { self.writer.local().count(prefix, at) })
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        self.writer.commit(txn)
    }

    fn commit_window(&self) -> usize {
        self.writer.commit_window()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(async move { self.writer.local().watch(request) })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.writer.local().check_open()?;
            let (reply, answer) = oneshot::channel();
            let request = CompactRequest { oldest: revision, reply };
            self.compactions.send(request).await.map_err(|_| Error::Closed)?;
            answer.await.map_err(|_| Error::Closed)?
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        self.writer.stats()
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.writer.local().close();
            let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            for task in tasks {
                // The panic has been printed by the hook; the store is closed either way.
                let _ = task.await;
            }
            self.writer.finish().await?;
            self.writer.local().health.check()
        })
    }

    fn writable(&self) -> Result<()> {
        let local = self.writer.local();
        local.check_open()?;
        local.health.check()
    }
}

impl<W: Writer> Drop for LocalEngine<W> {
    /// Ends the tasks of a store that was dropped without being closed; a writer's thread ends with its last job.
    fn drop(&mut self) {
        self.writer.local().close();
    }
}
