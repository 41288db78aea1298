//! The default engine: an append-only log with group commit, and everything in memory.
//!
//! A Kubernetes store fits into memory and has to be there to serve watches, so the disk is
//! only ever written to, but for opening. The log begins where the kept history begins: a
//! snapshot is taken of the state *before* the oldest revision kept, so a reopened store
//! has its whole history again. See `docs/format.md` for the bytes.

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
    /// Where time comes from.
    pub clock: Clock,
    /// How much history to keep.
    pub compaction: CompactionPolicy,
    /// The largest log segment, unless a single batch needs more. Segments are filled with
    /// zeros ahead, so this is also about what lies unused on the disk.
    pub segment_bytes: u64,
    /// A snapshot is made when it frees at least this much of the log, and at least as much
    /// as it takes up itself, so that no more than half of all writing is snapshots.
    ///
    /// This bounds the log. It holds what the history holds, what is current and was written
    /// within the history (`bytes` of [`crate::Stats`] at most), what a snapshot would free (less
    /// than the larger of `bytes` and this), and parts of segments: the one that history begins
    /// in, the active one and the one made ahead. With the defaults, that is no more than twice
    /// (`bytes` + `history_bytes`) and 128 MiB.
    pub snapshot_min_bytes: u64,
    /// Where store identities and salts come from.
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

/// Opens the store in a directory, or makes one. Needs a tokio runtime for its tasks.
pub async fn open(dir: &Path, options: Options) -> Result<Store> {
    let dir = dir.to_owned();
    open_with(move || Ok(Arc::new(RealFiles::open_or_create(&dir)?) as Arc<dyn Files>), options).await
}

/// Opens a store that must be there already.
pub async fn open_existing(dir: &Path, options: Options) -> Result<Store> {
    let dir = dir.to_owned();
    open_with(move || Ok(Arc::new(RealFiles::open_existing(&dir)?) as Arc<dyn Files>), options).await
}

/// Opens the store on a file layer of the caller's, such as one that fails on purpose.
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

    /// Makes a snapshot if enough of the log is superfluous once history begins with `oldest`.
    /// Never beside a compaction, which would cut off versions that the snapshot still reads.
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
            // The snapshot first: the log shrinks before the history that it is measured by does.
            let snapshot = self.snapshot_if_due(oldest).await;
            // Also if the snapshot failed, on a full disk for instance: memory must not grow.
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
            // Handles to the closed store may live on; the directory is free all the same.
            self.files.unlock();
            outcome
        })
    }
}
