//! The default engine: an append-only log with group commit; all data is in memory.
//!
//! The data of a Kubernetes cluster fits into memory, and must be there to serve watches, so the disk is only written
//! to, except when the store is opened. The log begins where the kept history begins: a snapshot has the state
//! *before* the oldest kept revision, so a reopened store has its whole history. See `docs/format.md` for the format.

mod check;
mod damage;
mod end;
mod files;
mod format;
mod frame;
mod load;
mod log;
mod record;
mod repair;
mod scan;
mod segment;
mod snapshot;
pub(crate) mod snapshot_file;
mod writer;

#[cfg(any(test, feature = "testing"))]
pub mod fake;

use std::path::Path;
use std::sync::Arc;

use coracle_base::{Clock, Rng, Task};

#[cfg(any(test, feature = "testing"))]
pub use self::check::check_files;
pub use self::check::{FileReport, Report, Torn, check};
pub use self::damage::WayOut;
use self::files::RealFiles;
pub(crate) use self::files::io_error;
pub use self::files::{File, Files};
use self::format::StoreId;
use self::log::{Log, SealedList};
#[cfg(any(test, feature = "testing"))]
pub use self::repair::repair_files;
pub use self::repair::{Repaired, TruncateAt, repair};
use self::snapshot_file::SnapshotJob;
use self::writer::{QUEUE_JOBS, WriterHandle};
use crate::compact::CompactionPolicy;
use crate::engine::local::{Writer, serve};
use crate::engine::{BoxFuture, Stats};
use crate::error::{Error, Result};
use crate::local::Local;
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Txn};

/// Settings of the disk engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The clock.
    pub clock: Clock,
    /// How much history to keep.
    pub compaction: CompactionPolicy,
    /// Maximum size of a log segment, unless a single batch needs more. Segments are zero-filled in advance, so this
    /// also limits unused space on disk.
    pub segment_bytes: u64,
    /// A snapshot is written when it frees at least this much of the log, and at least as much as its own size, so
    /// that at most half of all writes are snapshots.
    ///
    /// This bounds the log. It holds the history, current values written within the history (at most `bytes` of
    /// [`crate::Stats`]), data that a snapshot would free (less than the larger of `bytes` and this), and parts of
    /// segments: the one in which the history begins, the active one and the next one. With the defaults, that is at
    /// most twice (`bytes` + `history_bytes`) and 128 MiB.
    pub snapshot_min_bytes: u64,
    /// Source of store ids and salts.
    pub rng: Rng,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            compaction: CompactionPolicy::default(),
            segment_bytes: 16 << 20,
            snapshot_min_bytes: 64 << 20,
            rng: Rng::from_entropy(),
        }
    }
}

/// Opens the store in a directory, or creates one. Needs a tokio runtime for its tasks.
pub async fn open(dir: &Path, options: Options) -> Result<Store> {
    let dir = dir.to_owned();
    open_with(move || Ok(Arc::new(RealFiles::open_or_create(&dir)?) as Arc<dyn Files>), options).await
}

/// Opens an existing store.
pub async fn open_existing(dir: &Path, options: Options) -> Result<Store> {
    let dir = dir.to_owned();
    open_with(move || Ok(Arc::new(RealFiles::open_existing(&dir)?) as Arc<dyn Files>), options).await
}

/// Opens the store on the caller's file layer, such as one that injects failures.
#[cfg(any(test, feature = "testing"))]
pub async fn open_on(files: Arc<dyn Files>, options: Options) -> Result<Store> {
    open_with(move || Ok(files), options).await
}

async fn open_with(
    files: impl FnOnce() -> Result<Arc<dyn Files>> + Send + 'static,
    options: Options,
) -> Result<Store> {
    // Reading the files takes long and blocks.
    let loading = Task::spawn_blocking("store-open", move || {
        let files = files()?;
        let loaded = load::load(&files, &options)?;
        Ok((files, loaded, options))
    });
    let (files, loaded, options) = loading.await.map_err(|error| Error::Internal(error.to_string()))??;
    let log = Log::new(files.clone(), loaded.log, options.rng.clone(), options.segment_bytes);
    let local =
        Arc::new(Local::new(loaded.index, loaded.history, options.clock.clone(), options.compaction.clone()));
    Ok(serve(Arc::new(Disk {
        sealed: log.sealed(),
        store: log.store(),
        writer: WriterHandle::spawn(local.clone(), log)?,
        local,
        files,
        options,
    })))
}

struct Disk {
    local: Arc<Local>,
    writer: WriterHandle,
    files: Arc<dyn Files>,
    sealed: Arc<SealedList>,
    store: StoreId,
    options: Options,
}

impl Disk {
    async fn compact_history(&self, oldest: Revision) -> Result<()> {
        if oldest <= self.local.history.oldest() {
            return Ok(());
        }
        let dead = self.local.forget(oldest).await?;
        self.writer.purge(&dead).await?;
        self.writer.compacted(oldest).await
    }

    /// Writes a snapshot if enough of the log is superfluous once history begins at `oldest`. Must not run
    /// concurrently with a compaction, which would remove versions that the snapshot still reads.
    async fn snapshot_if_due(&self, oldest: Revision) -> Result<()> {
        let base = Revision::new(oldest.get() - 1);
        let index = self.local.snapshot();
        let freed: u64 =
            self.sealed.lock().iter().filter(|sealed| sealed.last <= base).map(|sealed| sealed.bytes).sum();
        if freed < self.options.snapshot_min_bytes.max(index.live_bytes()) {
            return Ok(());
        }
        let job = SnapshotJob {
            files: self.files.clone(),
            store: self.store,
            salt: self.options.rng.clone().u64() ^ base.get(),
            index,
            base,
            sealed: self.sealed.clone(),
            local: self.local.clone(),
        };
        let work = Task::spawn_blocking("store-snapshot", move || job.run());
        work.await.map_err(|error| Error::Internal(error.to_string()))?
    }
}

impl Writer for Disk {
    fn local(&self) -> &Arc<Local> {
        &self.local
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(async move {
            self.local.check_open()?;
            self.writer.commit(txn).await
        })
    }

    fn commit_window(&self) -> usize {
        QUEUE_JOBS / 2
    }

    fn compact(&self, oldest: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.local.check_compactable(oldest)?;
            let oldest = oldest.max(self.local.history.oldest());
            // The snapshot first, so that the log shrinks before the history with which it is compared.
            let snapshot = self.snapshot_if_due(oldest).await;
            // Even if the snapshot failed, for example on a full disk, because memory must not grow.
            self.compact_history(oldest).await?;
            snapshot
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move {
            let files = self.files.clone();
            let sum = Task::spawn_blocking("store-stats", move || snapshot_file::disk_bytes(&*files));
            let disk_bytes = sum.await.map_err(|error| Error::Internal(error.to_string()))??;
            Ok(Stats { disk_bytes, ..self.local.stats("disk") })
        })
    }

    fn retest_space(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.writer.retest_space())
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut outcome = Ok(());
            if let Some(thread) = self.writer.shut() {
                let joined = Task::spawn_blocking("store-close", move || thread.join()).await;
                if !matches!(joined, Ok(Ok(()))) {
                    outcome = Err(Error::Internal("the writer's thread panicked".to_owned()));
                }
            }
            // Handles to the closed store may live on; the directory is released anyway.
            self.files.unlock();
            outcome
        })
    }
}
