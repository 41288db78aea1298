//! The store handle: an engine confined to a scope.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::layered::{Base, Layered};
use crate::engine::{Engine, Stats};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::guard::{self, Guard};
use crate::read::{At, Count, Get, Range, RangeRequest};
use crate::revision::Revision;
use crate::txn::{Committed, Delete, Expect, Op, Put, Txn};
use crate::watch::{Watch, WatchRequest};

/// Maximum attempts of [`Store::update`]. Each conflict means that another writer succeeded, so only a heavily
/// contended key comes near this limit.
const MAX_UPDATE_ATTEMPTS: u32 = 256;

/// Terminates the name of a scope within a key, so that scope `a` cannot access scope `ab`.
pub(crate) const SCOPE_END: u8 = b'/';

/// A store, or the part of one with a key prefix. Cheap to clone.
///
/// All keys passed and returned are relative to the scope, and keys outside of it are inaccessible. A scope without
/// keys costs nothing: it only exists in this handle.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    scope: Arc<[u8]>,
    guards: Arc<[Arc<Guard>]>,
}

/// The action of [`Store::update`] on a key.
#[derive(Debug)]
pub enum Update {
    /// Leave it unchanged.
    Keep,
    /// Write this value. Key and condition are filled in.
    Put(Put),
    /// Delete it.
    Delete,
}

impl Update {
    /// Write this value.
    pub fn put(value: impl Into<Bytes>) -> Self {
        Update::Put(Put::new(Vec::new(), value))
    }
}

/// The result of [`Store::update`].
#[derive(Debug)]
pub struct Updated {
    /// The revision of the write, or of the state that was left unchanged.
    pub revision: Revision,
    /// The entry before the update, if there was one.
    pub previous: Option<Entry>,
    /// True if anything was written.
    pub changed: bool,
}

impl Store {
    /// A handle to the whole engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, scope: Arc::from([]), guards: Arc::from([]) }
    }

    /// The scope called `name`. Writes nothing.
    ///
    /// # Errors
    /// If the name is empty or contains a slash, which could give access to another scope.
    pub fn scope(&self, name: &str) -> Result<Store> {
        if name.is_empty() || name.as_bytes().contains(&SCOPE_END) {
            return Err(Error::InvalidKey { reason: "the name of a scope is not empty and has no slash" });
        }
        let mut scope = self.full_key(name.as_bytes());
        scope.push(SCOPE_END);
        crate::key::check(&scope)?;
        Ok(Store { engine: self.engine.clone(), scope: scope.into(), guards: self.guards.clone() })
    }

    /// Creates a condition on a key of this scope, for handles of this or any other scope of the same engine: `holds`
    /// checks the key's entry (`None` if it does not exist). The name is for errors. Not for a scope over a [`Base`].
    pub fn guard(
        &self,
        name: &str,
        key: impl AsRef<[u8]>,
        holds: impl Fn(Option<&Entry>) -> bool + Send + Sync + 'static,
    ) -> Arc<Guard> {
        Arc::new(Guard::new(name, self.full_key(key.as_ref()), Box::new(holds)))
    }

    /// A handle to this scope, and all scopes within it, whose commits require this guard in addition to the handle's
    /// own. Otherwise they fail with [`Error::GuardLost`]. Call it before [`Store::over`], which changes the meaning
    /// of keys.
    #[must_use]
    pub fn guarded(&self, guard: &Arc<Guard>) -> Store {
        let guards = self.guards.iter().chain([guard]).cloned().collect();
        Store { guards, ..self.clone() }
    }

    /// A handle to this scope that also shows the entries of `base`, which are not written to the store; see
    /// [`Base`].
    #[must_use]
    pub fn over(&self, base: Arc<dyn Base>) -> Store {
        Store::new(Arc::new(Layered::new(self.clone(), base)))
    }

    /// Deletes every key of this scope at one revision; returns their number.
    pub async fn drop_scope(&self) -> Result<u64> {
        let committed = self.commit(Txn::new().delete_prefix([])).await?;
        Ok(committed.deleted)
    }

    /// Reads a key at the latest revision.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Get> {
        self.get_at(key, At::Latest).await
    }

    /// Reads a key at some revision.
    pub async fn get_at(&self, key: impl AsRef<[u8]>, at: At) -> Result<Get> {
        let get = if self.scope.is_empty() {
            self.engine.get(key.as_ref(), at).await?
        } else {
            self.engine.get(&self.full_key(key.as_ref()), at).await?
        };
        Ok(Get { entry: get.entry.map(|entry| self.scoped(entry)), revision: get.revision })
    }

    /// Reads keys in order, all from one snapshot.
    pub async fn range(&self, mut request: RangeRequest) -> Result<Range> {
        request.prefix = self.full_key(&request.prefix);
        request.start = request.start.map(|start| self.full_key(&start));
        let mut range = self.engine.range(request).await?;
        if !self.scope.is_empty() {
            range.entries = range.entries.into_iter().map(|entry| self.scoped(entry)).collect();
        }
        Ok(range)
    }

    /// Counts the keys that start with `prefix`, at some revision.
    pub async fn count(&self, prefix: impl AsRef<[u8]>, at: At) -> Result<Count> {
        self.engine.count(&self.full_key(prefix.as_ref()), at).await
    }

    /// Writes one key.
    pub async fn put(&self, put: Put) -> Result<Committed> {
        self.commit(Txn::new().put(put)).await
    }

    /// Deletes one key.
    pub async fn delete(&self, delete: Delete) -> Result<Committed> {
        self.commit(Txn::new().delete(delete)).await
    }

    /// Executes a transaction. If the future is dropped, the transaction is executed as a whole or not at all.
    pub async fn commit(&self, txn: Txn) -> Result<Committed> {
        txn.validate()?;
        self.commit_valid(txn).await
    }

    /// Executes a validated transaction.
    pub(crate) async fn commit_valid(&self, txn: Txn) -> Result<Committed> {
        let txn = self.full_txn(txn)?;
        let committed = match &*self.guards {
            [] => self.engine.commit(txn).await,
            guards => guard::commit(guards, &*self.engine, txn).await,
        };
        let mut committed = committed.map_err(|error| self.scoped_error(error))?;
        if !self.scope.is_empty() {
            let previous = committed.previous.into_iter();
            committed.previous = previous.map(|entry| entry.map(|entry| self.scoped(entry))).collect();
        }
        Ok(committed)
    }

    /// Updates a key: calls `change` with the current entry, and again after a conflict with another writer.
    pub async fn update<F, E>(&self, key: impl AsRef<[u8]>, mut change: F) -> Result<Updated, E>
    where
        F: FnMut(Option<&Entry>) -> Result<Update, E>,
        E: From<Error>,
    {
        let key = key.as_ref();
        let Get { entry: mut current, mut revision } = self.get(key).await?;
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let expect =
                current.as_ref().map_or(Expect::Absent, |entry| Expect::ModRevision(entry.mod_revision()));
            let txn = match change(current.as_ref())? {
                Update::Keep => return Ok(Updated { revision, previous: current, changed: false }),
                Update::Put(put) => Txn::new().put(Put { key: key.to_vec(), expect, ..put }),
                Update::Delete => Txn::new().delete(Delete { key: key.to_vec(), expect }),
            };
            match self.commit(txn).await {
                Ok(committed) => {
                    return Ok(Updated { revision: committed.revision, previous: current, changed: true });
                }
                Err(Error::Conflict(conflict)) => {
                    revision = conflict.found.as_ref().map_or(revision, Entry::mod_revision);
                    current = conflict.found;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Contention { key: key.to_vec(), attempts: MAX_UPDATE_ATTEMPTS }.into())
    }

    /// Starts a watch.
    pub async fn watch(&self, mut request: WatchRequest) -> Result<Watch> {
        request.prefix = self.full_key(&request.prefix);
        Ok(self.engine.watch(request).await?.in_scope(self.scope.len()))
    }

    /// Discards history before `revision`, for all scopes, because they share one sequence.
    pub async fn compact(&self, revision: Revision) -> Result<()> {
        self.engine.compact(revision).await
    }

    /// Statistics of the engine, over all scopes.
    pub async fn stats(&self) -> Result<Stats> {
        self.engine.stats().await
    }

    /// Maximum number of concurrent commits that are still executed in the order in which they were started.
    pub fn commit_window(&self) -> usize {
        self.engine.commit_window()
    }

    /// Returns an error if the engine rejects writes at the moment. Costs no I/O: it reports the result of the last
    /// write, or of the engine's own retest.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`] until the store is reopened, [`Error::DiskFull`] until there is space
    /// again, [`Error::Unavailable`] and [`Error::Refused`] for etcd.
    pub fn writable(&self) -> Result<()> {
        self.engine.writable()
    }

    /// Closes the engine, for all scopes.
    ///
    /// # Errors
    /// If the store failed earlier and rejected writes, or if its end could not be recorded. Every acknowledged write
    /// is durable anyway. A second call returns the same.
    pub async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    fn full_key(&self, key: &[u8]) -> Vec<u8> {
        let mut full = Vec::with_capacity(self.scope.len() + key.len());
        full.extend_from_slice(&self.scope);
        full.extend_from_slice(key);
        full
    }

    fn full_txn(&self, mut txn: Txn) -> Result<Txn> {
        if self.scope.is_empty() {
            return Ok(txn);
        }
        let checked = txn.checks.iter_mut().map(|(key, _)| key);
        let written = txn.ops.iter_mut().map(|op| {
            let (Op::Put(Put { key, .. }) | Op::Delete(Delete { key, .. }) | Op::DeletePrefix(key)) = op;
            key
        });
        for key in checked.chain(written) {
            *key = self.full_key(key);
            crate::key::check(key)?;
        }
        Ok(txn)
    }

    fn scoped(&self, entry: Entry) -> Entry {
        entry.in_scope(self.scope.len())
    }

    fn scoped_error(&self, error: Error) -> Error {
        match error {
            Error::Conflict(mut conflict) => {
                conflict.key.drain(..self.scope.len());
                conflict.found = conflict.found.map(|entry| self.scoped(entry));
                Error::Conflict(conflict)
            }
            other => other,
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("scope", &crate::key::display(&self.scope)).finish()
    }
}
