//! The handle everyone uses: an engine seen through a scope.

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

/// How often [`Store::update`] tries. Each lost attempt means that another writer got
/// through, so only a key that everyone fights over comes near this.
const MAX_UPDATE_ATTEMPTS: u32 = 256;

/// Ends the name of a scope within a key, so that scope `a` cannot see into scope `ab`.
pub(crate) const SCOPE_END: u8 = b'/';

/// A store, or the part of one under a prefix. Cheap to clone.
///
/// All keys given and returned are relative to the scope; there is no way out of it. A scope
/// that holds no key costs nothing: it is this handle and no more.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    scope: Arc<[u8]>,
    guards: Arc<[Arc<Guard>]>,
}

/// What [`Store::update`] is to do with a key.
#[derive(Debug)]
pub enum Update {
    /// Leave it as it is.
    Keep,
    /// Write this value. The key and the condition are filled in.
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

/// What [`Store::update`] did.
#[derive(Debug)]
pub struct Updated {
    /// The revision of the write, or of the state that was left as it is.
    pub revision: Revision,
    /// What the key was before.
    pub previous: Option<Entry>,
    /// Whether anything was written.
    pub changed: bool,
}

impl Store {
    /// The whole of an engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, scope: Arc::from([]), guards: Arc::from([]) }
    }

    /// The part of this store that belongs to `name`. Nothing is written for it.
    ///
    /// # Errors
    /// If the name is empty or contains a slash: it could then reach into another scope.
    pub fn scope(&self, name: &str) -> Result<Store> {
        if name.is_empty() || name.as_bytes().contains(&SCOPE_END) {
            return Err(Error::InvalidKey { reason: "the name of a scope is not empty and has no slash" });
        }
        let mut scope = self.full_key(name.as_bytes());
        scope.push(SCOPE_END);
        crate::key::check(&scope)?;
        Ok(Store { engine: self.engine.clone(), scope: scope.into(), guards: self.guards.clone() })
    }

    /// A condition on a key of this scope, for handles of this or any other scope of the same engine: `holds` judges
    /// the key's entry (`None`: it does not exist). The name is for errors. Not for a scope over a [`Base`].
    pub fn guard(
        &self,
        name: &str,
        key: impl AsRef<[u8]>,
        holds: impl Fn(Option<&Entry>) -> bool + Send + Sync + 'static,
    ) -> Arc<Guard> {
        Arc::new(Guard::new(name, self.full_key(key.as_ref()), Box::new(holds)))
    }

    /// This scope, and all scopes within it, written to only while this guard and those that the handle already has
    /// hold. Commits fail with [`Error::GuardLost`] otherwise. Call it before [`Store::over`], whose keys are its own.
    #[must_use]
    pub fn guarded(&self, guard: &Arc<Guard>) -> Store {
        let guards = self.guards.iter().chain([guard]).cloned().collect();
        Store { guards, ..self.clone() }
    }

    /// This scope, in which the entries of `base` are there without having been written; see
    /// [`Base`].
    #[must_use]
    pub fn over(&self, base: Arc<dyn Base>) -> Store {
        Store::new(Arc::new(Layered::new(self.clone(), base)))
    }

    /// Deletes every key of this store's scope at one revision, and says how many.
    pub async fn drop_scope(&self) -> Result<u64> {
        let committed = self.commit(Txn::new().delete_prefix([])).await?;
        Ok(committed.deleted)
    }

    /// A key at the latest revision.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Get> {
        self.get_at(key, At::Latest).await
    }

    /// A key at some revision.
    pub async fn get_at(&self, key: impl AsRef<[u8]>, at: At) -> Result<Get> {
        let get = if self.scope.is_empty() {
            self.engine.get(key.as_ref(), at).await?
        } else {
            self.engine.get(&self.full_key(key.as_ref()), at).await?
        };
        Ok(Get { entry: get.entry.map(|entry| self.shown(entry)), revision: get.revision })
    }

    /// Keys in order, all from one snapshot.
    pub async fn range(&self, mut request: RangeRequest) -> Result<Range> {
        request.prefix = self.full_key(&request.prefix);
        request.start = request.start.map(|start| self.full_key(&start));
        let mut range = self.engine.range(request).await?;
        if !self.scope.is_empty() {
            range.entries = range.entries.into_iter().map(|entry| self.shown(entry)).collect();
        }
        Ok(range)
    }

    /// How many keys start with `prefix`, at some revision.
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

    /// Carries out a transaction. Dropped before it returns, it is carried out whole or not
    /// at all.
    pub async fn commit(&self, txn: Txn) -> Result<Committed> {
        txn.validate()?;
        self.commit_valid(txn).await
    }

    /// Carries out a transaction that has been validated.
    pub(crate) async fn commit_valid(&self, txn: Txn) -> Result<Committed> {
        let txn = self.full_txn(txn)?;
        let committed = match &*self.guards {
            [] => self.engine.commit(txn).await,
            guards => guard::commit(guards, &*self.engine, txn).await,
        };
        let mut committed = committed.map_err(|error| self.shown_error(error))?;
        if !self.scope.is_empty() {
            let previous = committed.previous.into_iter();
            committed.previous = previous.map(|entry| entry.map(|entry| self.shown(entry))).collect();
        }
        Ok(committed)
    }

    /// Changes a key as `change` says, which sees its current entry and is asked again
    /// whenever another writer was faster.
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

    /// Gives up history before `revision`, for all scopes: there is one sequence.
    pub async fn compact(&self, revision: Revision) -> Result<()> {
        self.engine.compact(revision).await
    }

    /// Figures about the engine, over all scopes.
    pub async fn stats(&self) -> Result<Stats> {
        self.engine.stats().await
    }

    /// How many commits may be under way at once and still be carried out in the order in
    /// which they were begun.
    pub fn commit_window(&self) -> usize {
        self.engine.commit_window()
    }

    /// Whether the engine accepts writes at the moment; the error says why not. Costs no I/O:
    /// it reports the outcome of the last write, or of the engine's own later test.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`] until the store is reopened, [`Error::DiskFull`]
    /// until there is space again, [`Error::Unavailable`] and [`Error::Refused`] for etcd.
    pub fn writable(&self) -> Result<()> {
        self.engine.writable()
    }

    /// Stops the engine, for all scopes.
    ///
    /// # Errors
    /// If the store ended in failure: it refused writes, or its end could not be recorded.
    /// Every acknowledged write is durable all the same. A second call returns the same.
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

    fn shown(&self, entry: Entry) -> Entry {
        entry.in_scope(self.scope.len())
    }

    fn shown_error(&self, error: Error) -> Error {
        match error {
            Error::Conflict(mut conflict) => {
                conflict.key.drain(..self.scope.len());
                conflict.found = conflict.found.map(|entry| self.shown(entry));
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
