//! Moves data between engines: an export is a snapshot file with its entries in the order in which they were last
//! written, and an import writes them in that order.
//!
//! Revisions start anew, as they must on another engine; the order of the entries' mod revisions is preserved.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use coracle_base::{Clock, Rng, Task};

use crate::engine::disk::snapshot_file::{ExportReader, ExportWriter};
use crate::entry::{Entry, EntryParts};
use crate::error::{Error, Result};
use crate::read::{At, RangeRequest};
use crate::revision::Revision;
use crate::store::Store;
use crate::txn::{Committed, Expect, Put, Txn};

/// Entries per read.
const PAGE: usize = 1000;

/// Progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Amount of work done.
    pub done: u64,
    /// Total amount; 0 if unknown.
    pub total: u64,
}

/// Result of an export or import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Export: the revision of the snapshot. Import: the revision after it.
    pub revision: Revision,
}

/// Exports all entries of a store, as of one revision, to a file.
pub async fn export(
    store: &Store,
    file: File,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Transferred> {
    let (mut entries, revision) = read_all(store, progress).await?;
    entries.sort_by_key(Entry::mod_revision);
    let bytes = entries.iter().map(|entry| (entry.key().len() + entry.value_len()) as u64).sum();
    let transferred = Transferred { entries: entries.len() as u64, bytes, revision };
    let write = Task::spawn_blocking("store-export", move || {
        let mut writer = ExportWriter::begin(BufWriter::new(file), revision, Rng::from_entropy().u64())?;
        for entry in &entries {
            writer.push(&entry.to_parts())?;
        }
        let out = writer.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        out.sync_all()
    });
    let outcome = write.await.map_err(|error| Error::Internal(error.to_string()))?;
    outcome.map_err(|source| crate::engine::disk::io_error("write", Path::new("the export"), source))?;
    Ok(transferred)
}

async fn read_all(
    store: &Store,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(Vec<Entry>, Revision)> {
    let total = store.count("", At::Latest).await?;
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let mut request = RangeRequest::prefix("").limit(PAGE).at(total.revision);
        if let Some(last) = entries.last() {
            request = request.start([last.key(), b"\0"].concat());
        }
        let page = store.range(request).await?;
        entries.extend(page.entries);
        progress(Progress { done: entries.len() as u64, total: total.count });
        if !page.more {
            return Ok((entries, total.revision));
        }
    }
}

/// Imports the entries of an exported file into a store without keys.
pub async fn import(
    store: &Store,
    file: File,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Transferred> {
    let found = store.count("", At::Latest).await?;
    if found.count > 0 {
        return Err(Error::Config(format!(
            "the store has {} keys already; import into an empty one",
            found.count
        )));
    }
    let total = file.metadata().map_or(0, |metadata| metadata.len());
    let path = Path::new("the export");
    let mut reader = ExportReader::begin(BufReader::new(file), path)?;
    let clock = Clock::system();
    let mut done = Transferred { entries: 0, bytes: 0, revision: found.revision };
    let mut pipeline = Pipeline { window: store.commit_window(), running: VecDeque::new() };
    while let Some(block) = reader.next_block()? {
        for parts in block {
            let Some(put) = put(&parts, &clock) else { continue };
            done.entries += 1;
            done.bytes += (parts.key.len() + parts.value.len()) as u64;
            let store = store.clone();
            pipeline
                .push(Box::pin(async move { store.commit(Txn::new().put(put)).await }), &mut done)
                .await?;
        }
        progress(Progress { done: reader.offset(), total });
    }
    pipeline.drain(&mut done).await?;
    Ok(done)
}

/// The write that restores an entry; `None` if it has expired meanwhile.
fn put(parts: &EntryParts, clock: &Clock) -> Option<Put> {
    let mut put = Put::new(parts.key.to_vec(), parts.value.clone()).expect(Expect::Absent);
    if let Some(stamp) = parts.stamp {
        put = put.stamp_at(stamp);
    }
    if let Some(expires_at) = parts.expires_at {
        let left = expires_at.since(clock.now());
        if left == Duration::ZERO {
            return None;
        }
        put = put.ttl(left);
    }
    Some(put)
}

type Running = Pin<Box<dyn Future<Output = Result<Committed>> + Send>>;

/// Commits in flight, in order.
struct Pipeline {
    window: usize,
    running: VecDeque<Running>,
}

impl Pipeline {
    async fn push(&mut self, mut commit: Running, done: &mut Transferred) -> Result<()> {
        // Polled once immediately, which puts it into the engine's queue, in order.
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(commit.as_mut().poll(cx))).await;
        match first {
            std::task::Poll::Ready(committed) => done.revision = committed?.revision,
            std::task::Poll::Pending => self.running.push_back(commit),
        }
        while self.running.len() >= self.window {
            self.finish_one(done).await?;
        }
        Ok(())
    }

    async fn finish_one(&mut self, done: &mut Transferred) -> Result<()> {
        if let Some(commit) = self.running.pop_front() {
            done.revision = commit.await?.revision;
        }
        Ok(())
    }

    async fn drain(&mut self, done: &mut Transferred) -> Result<()> {
        while !self.running.is_empty() {
            self.finish_one(done).await?;
        }
        Ok(())
    }
}
