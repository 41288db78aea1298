//! The writer thread: takes the queued jobs, makes them durable with one sync, publishes them, and replies.
//!
//! There is no timer: a single writer does not wait for others, and while one batch is being synced the next one
//! accumulates in the queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::frame::FrameBuilder;
use super::log::Log;
use super::record::Record;
use crate::entry::Version;
use crate::error::{Error, Result, chain};
use crate::index::{Commit, Index};
use crate::local::Local;
use crate::revision::Revision;
use crate::txn::{Committed, Txn};

/// Maximum queued jobs. When the queue is full, callers wait; they hold their transactions anyway, so this bounds the
/// additional memory of the queue.
pub(super) const QUEUE_JOBS: usize = 1024;

/// A batch is closed when its payload reaches this size, which keeps a sync short.
const BATCH_BYTES: usize = 1 << 20;

/// A batch is closed at this number of jobs, so that the first one does not wait forever.
const BATCH_JOBS: usize = 1024;

/// Tombstones purged between two batches, which takes a few hundred microseconds.
const PURGE_CHUNK: usize = 64;

pub(super) enum Job {
    Commit {
        txn: Txn,
        reply: oneshot::Sender<Result<Committed>>,
    },
    /// History before `oldest` has been discarded.
    Compacted {
        oldest: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
    /// No read can need these tombstones any more.
    Purge {
        dead: Vec<Arc<Version>>,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Tests whether there is space again after writes were rejected for lack of it.
    RetestSpace {
        reply: oneshot::Sender<Result<()>>,
    },
}

/// Sends jobs to the writer thread.
pub(super) struct WriterHandle {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterHandle {
    pub(super) fn spawn(local: Arc<Local>, log: Log) -> Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_JOBS);
        let working = (*local.snapshot()).clone();
        let writer = Writer { local, log, working, frame: FrameBuilder::default() };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run(queue))
            .map_err(|source| Error::Io {
                operation: "start the writer of",
                path: "the store".into(),
                source: Arc::new(source),
            })?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    fn sender(&self) -> Result<mpsc::Sender<Job>> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.clone().ok_or(Error::Closed)
    }

    pub(super) async fn commit(&self, txn: Txn) -> Result<Committed> {
        let (reply, answer) = oneshot::channel();
        self.sender()?.send(Job::Commit { txn, reply }).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    pub(super) async fn compacted(&self, oldest: Revision) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.sender()?.send(Job::Compacted { oldest, reply }).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// In chunks, so that writers do not wait for a large purge.
    pub(super) async fn purge(&self, dead: &[Arc<Version>]) -> Result<()> {
        for portion in dead.chunks(PURGE_CHUNK) {
            let (reply, answer) = oneshot::channel();
            let job = Job::Purge { dead: portion.to_vec(), reply };
            self.sender()?.send(job).await.map_err(|_| Error::Closed)?;
            answer.await.map_err(|_| Error::Closed)??;
        }
        Ok(())
    }

    pub(super) async fn retest_space(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.sender()?.send(Job::RetestSpace { reply }).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Closes the queue. The thread ends after the jobs that are queued.
    pub(super) fn shut(&self) -> Option<JoinHandle<()>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Writer {
    local: Arc<Local>,
    log: Log,
    /// Ahead of the published index while a batch is being made durable.
    working: Index,
    frame: FrameBuilder,
}

/// Jobs that share a sync, and their replies on success.
#[derive(Default)]
struct Batch {
    answers: Vec<(oneshot::Sender<Result<Committed>>, Result<Committed>)>,
    notices: Vec<oneshot::Sender<Result<()>>>,
    commits: Vec<Arc<Commit>>,
    dead: Vec<Arc<Version>>,
}

impl Writer {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(job) = queue.blocking_recv() {
            self.batch(job, &mut queue);
        }
        self.close();
    }

    fn batch(&mut self, first: Job, queue: &mut mpsc::Receiver<Job>) {
        let before = self.working.clone();
        let mut batch = Batch::default();
        self.frame.clear();
        let mut next = Some(first);
        for _ in 0..BATCH_JOBS {
            let Some(job) = next.take() else { break };
            self.admit(job, &mut batch);
            if self.frame.payload_len() >= BATCH_BYTES {
                break;
            }
            next = queue.try_recv().ok();
        }
        // The loop may have taken one more job than the batch had space for.
        if let Some(job) = next {
            self.admit(job, &mut batch);
        }
        match self.make_durable() {
            Ok(()) => self.publish(batch),
            Err(failure) => self.refuse(before, batch, &failure),
        }
    }

    fn admit(&mut self, job: Job, batch: &mut Batch) {
        match job {
            Job::Commit { txn, reply } => {
                let answer = self.stage(txn, batch);
                batch.answers.push((reply, answer));
            }
            Job::Compacted { oldest, reply } => {
                batch.notices.push(reply);
                self.frame.push(&Record::Compacted { oldest });
            }
            Job::Purge { dead, reply } => {
                dead.iter().for_each(|tombstone| self.working.purge(tombstone));
                batch.dead.extend(dead);
                batch.notices.push(reply);
            }
            Job::RetestSpace { reply } => {
                // The send fails if the caller no longer waits.
                let _ = reply.send(self.retest_space());
            }
        }
    }

    fn retest_space(&mut self) -> Result<()> {
        if self.local.health.is_disk_full() {
            self.log.make_room()?;
            self.local.health.clear();
        }
        self.local.health.check()
    }

    /// After a failed sync nothing may be written until the store is reopened.
    fn check_poison(&self) -> Result<()> {
        match self.local.health.check() {
            Err(poisoned @ Error::Poisoned { .. }) => Err(poisoned),
            _ => Ok(()),
        }
    }

    fn stage(&mut self, txn: Txn, batch: &mut Batch) -> Result<Committed> {
        self.check_poison()?;
        let staged = self.working.stage(txn, self.local.clock.now())?;
        if let Some((commit, changes)) = staged.effect {
            self.frame.push(&Record::Commit(changes));
            batch.commits.push(commit);
        }
        Ok(staged.committed)
    }

    fn make_durable(&mut self) -> Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.check_poison()?;
        let outcome = self.log.append(&mut self.frame, self.working.revision(), self.local.clock.now());
        match outcome {
            Ok(()) => {
                self.local.health.clear();
                Ok(())
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Records the reason why writes are rejected from now on.
    fn refused(&self, error: Error) -> Error {
        let failure = match error {
            full @ Error::DiskFull { .. } => full,
            other => Error::Poisoned { reason: chain(&other).into() },
        };
        self.local.health.fail(&failure);
        // The keeper retests the space.
        self.local.upkeep.notify_one();
        failure
    }

    fn publish(&mut self, batch: Batch) {
        let is_new = !batch.commits.is_empty() || !batch.dead.is_empty();
        let wakeups = is_new.then(|| self.local.publish_to_readers(self.working.clone(), &batch.commits));
        // The send fails if the caller no longer waits.
        for (reply, answer) in batch.answers {
            let _ = reply.send(answer);
        }
        for notice in batch.notices {
            let _ = notice.send(Ok(()));
        }
        // After the replies, because the task that is woken first runs first.
        if let Some(wakeups) = wakeups {
            wakeups.wake();
        }
    }

    /// Rolls back the batch. Conflicts are answered with the failure too: they may have been conflicts with
    /// transactions that are rolled back.
    fn refuse(&mut self, before: Index, batch: Batch, failure: &Error) {
        self.working = before;
        // History has been discarded in memory, whatever the result on disk.
        batch.dead.iter().for_each(|tombstone| self.working.purge(tombstone));
        for (reply, _) in batch.answers {
            let _ = reply.send(Err(failure.clone()));
        }
        for notice in batch.notices {
            let _ = notice.send(Err(failure.clone()));
        }
    }

    fn close(mut self) {
        self.frame.clear();
        self.frame.push(&Record::Closed);
        let marked = self.make_durable();
        self.log.finish();
        if let Err(error) = marked.and_then(|()| self.log.record_end()) {
            tracing::warn!(
                error = chain(&error),
                "cannot mark the store as closed; every acknowledged write is durable"
            );
            self.local.health.fail(&error);
        }
    }
}
