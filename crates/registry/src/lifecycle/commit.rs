//! The transaction loop by which objects are written: plan, commit, and repeat after a conflict.

use coracle_meta::object::{MetaMut, fill_system_fields};
use coracle_store::{
    At, Base, Delete, Entry, Error as StoreError, Expect, Get, Put, RangeRequest, Revision, Txn,
};
use serde_json::Value;

use crate::allocation::{AllocatedSet, Allocation, Record};
use crate::cluster::Cluster;
use crate::clusters::Growth;
use crate::condition::{Condition, Conditions};
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::kind::{Declaration, Kind};

/// Number of attempts against concurrent writers before a write fails.
const MAX_ATTEMPTS: u32 = 100;

/// The change of an object in a plan.
pub(super) enum Step {
    /// The object is not written.
    Keep,
    /// The object is written.
    Put(Encoded),
    /// The object is deleted.
    Delete,
}

/// The planned change of an object, with its new and released allocations.
pub(super) struct Plan {
    pub(super) step: Step,
    pub(super) allocations: Vec<Allocation>,
    pub(super) released: Vec<Allocation>,
}

impl Plan {
    /// A plan that writes nothing.
    pub(super) fn keep() -> Self {
        Self { step: Step::Keep, allocations: Vec::new(), released: Vec::new() }
    }

    /// The plan of a dry run. As in kube-apiserver, it checks whether internal allocations such as ports are free,
    /// but not those that are objects.
    pub(super) fn dry(self) -> Self {
        let allocations =
            self.allocations.into_iter().filter(|allocation| matches!(allocation.record, Record::Note(_)));
        Self { allocations: allocations.collect(), ..Self::keep() }
    }
}

/// Assumption of the caller about the stored object.
pub(super) enum Known {
    /// Nothing: the latest state has to be read.
    Nothing,
    /// The cached state is probably the latest, so planning starts from it, and [`Attempts::confirm`] is called
    /// before a result that does not depend on a transaction. GuaranteedUpdate of kube-apiserver does the same with
    /// its cached object.
    Probable,
    /// The object probably does not exist.
    Absent,
}

/// Result of a plan.
pub(super) struct Outcome {
    pub(super) revision: Revision,
    pub(super) previous: Option<Entry>,
    pub(super) changed: bool,
}

/// The attempts to write one object. Planning between two attempts may be asynchronous.
pub(super) struct Attempts<'c> {
    cluster: &'c Cluster,
    declaration: &'c Declaration,
    key: String,
    current: Option<Entry>,
    revision: Revision,
    /// Whether `current` was the latest state at some time since the write began.
    confirmed: bool,
    taken: AllocatedSet,
    conditions: Vec<Condition>,
    left: u32,
    /// Whether the write may exceed the limits of the cluster.
    exempt: bool,
}

impl Attempts<'_> {
    /// Lets the write exceed the limits of the cluster: a full cluster must be able to delete, and a deletion that
    /// waits for finalizers adds a timestamp first.
    pub(super) fn exempt_from_limits(&mut self) {
        self.exempt = true;
    }

    /// Whether the found state is the latest, so that a result without a transaction is valid. Otherwise
    /// [`Attempts::found`] returns the latest state from now on, and the caller plans again.
    pub(super) async fn confirm(&mut self) -> Result<bool> {
        if self.confirmed {
            return Ok(true);
        }
        let Get { entry, revision } = self.cluster.store.get(&self.key).await?;
        let written = |entry: &Option<Entry>| entry.as_ref().map(Entry::mod_revision);
        let is_same = written(&entry) == written(&self.current);
        (self.current, self.revision, self.confirmed) = (entry, revision, true);
        Ok(is_same)
    }

    /// The result of an attempt; `None` if the attempt must be repeated because a stale state rejected it.
    pub(super) async fn settle<T>(&mut self, attempt: Result<Option<T>>) -> Result<Option<T>> {
        match attempt {
            Err(error) if is_store_failure(&error) => Err(error),
            Err(error) if self.confirm().await? => Err(error),
            Err(_) => Ok(None),
            done => done,
        }
    }

    /// The current object, possibly from the cache.
    pub(super) fn found(&self) -> Option<&Entry> {
        self.current.as_ref()
    }

    /// Loads the IP ranges that objects of the cluster define, for kinds that allocate from them.
    pub(super) async fn load_ranges(&mut self, kind: &dyn Kind) -> Result<()> {
        let Some(of) = kind.ranges_from() else { return Ok(()) };
        let known = self.cluster.find_all(of, "").await?;
        self.taken.set_ranges(known.iter().flat_map(|object| of.ranges(object)).collect());
        Ok(())
    }

    /// Allocations of other objects.
    pub(super) fn taken(&self) -> &AllocatedSet {
        &self.taken
    }

    /// Adds conditions to the transaction of the next plan.
    pub(super) fn require(&mut self, conditions: Conditions) {
        self.conditions = conditions.into_all();
    }

    /// Commits a plan. `None` after a conflict with another writer: plan again.
    pub(super) async fn carry_out(&mut self, plan: Plan) -> Result<Option<Outcome>> {
        if matches!(plan.step, Step::Keep)
            && let Some(key) = self.cluster.first_taken(&plan.allocations).await?
        {
            return self.mark_conflict(key).await.map(|()| None);
        }
        let deletes = matches!(plan.step, Step::Delete);
        let mut reservation =
            if self.exempt && !deletes { None } else { self.cluster.reserve(self.growth(&plan)).await? };
        loop {
            let Some(txn) = self.transaction(&plan) else {
                if !self.confirm().await? {
                    return Ok(None);
                }
                let previous = self.current.take();
                return Ok(Some(Outcome { revision: self.revision, previous, changed: false }));
            };
            let conflict = match self.cluster.store.commit(txn).await {
                Ok(committed) => {
                    if let Some(reservation) = reservation.take() {
                        reservation.committed(committed.revision);
                    }
                    if deletes {
                        self.cluster.restore(self.declaration, &self.key).await;
                    }
                    let (allocated, took) = self.taken.take_allocated();
                    self.cluster.allocations.note(&allocated, took);
                    let previous = self.current.take();
                    return Ok(Some(Outcome { revision: committed.revision, previous, changed: true }));
                }
                Err(StoreError::Conflict(conflict)) => conflict,
                Err(error) => return Err(error.into()),
            };
            if conflict.key == self.key.as_bytes() {
                self.revision = conflict.found.as_ref().map_or(self.revision, Entry::mod_revision);
                self.current = conflict.found;
                self.confirmed = true;
                return self.try_again().map(|()| None);
            }
            let condition = self.conditions.iter_mut().find(|one| one.key.as_bytes() == conflict.key);
            let Some(condition) = condition else {
                let key = String::from_utf8_lossy(&conflict.key).into_owned();
                return self.mark_conflict(key).await.map(|()| None);
            };
            condition.judge_again(conflict.found.as_ref())?;
            self.try_again()?;
        }
    }

    /// Change of the storage used by the cluster. An estimate: allocations count only with their keys here, and
    /// exactly when the watch delivers them.
    fn growth(&self, plan: &Plan) -> Growth {
        // A shared bootstrap object is not stored in the cluster, so the first write of it adds a key.
        let is_base = |entry: &&Entry| {
            self.cluster.base().is_some_and(|base| {
                entry.mod_revision() == base.revision() && base.contains(self.key.as_bytes())
            })
        };
        let stored = self.current.as_ref().filter(|entry| !is_base(entry));
        let removed =
            stored.map_or(Growth::default(), |entry| Growth::removed(self.key.len() + entry.value_len()));
        let allocations = plan.allocations.iter().map(|allocation| Growth::added(allocation.key.len()));
        let released = plan.released.iter().map(|allocation| Growth::removed(allocation.key.len()));
        let object = match &plan.step {
            Step::Keep => return Growth::default(),
            Step::Put(encoded) => {
                // The store counts the revision that it stamps into the value.
                let stamp = stored.map_or(0, |entry| entry.mod_revision().to_string().len());
                removed.plus(Growth::added(self.key.len() + encoded.bytes.len() + stamp))
            }
            Step::Delete => removed,
        };
        allocations.chain(released).fold(object, Growth::plus)
    }

    fn transaction(&self, plan: &Plan) -> Option<Txn> {
        let txn = self.cluster.transaction(self.declaration, &self.key, self.current.as_ref(), plan)?;
        Some(self.conditions.iter().fold(txn, |txn, one| txn.check(one.key.as_bytes(), one.expect)))
    }

    /// Marks a key as allocated by another object, after a conflict.
    async fn mark_conflict(&mut self, key: String) -> Result<()> {
        if let Some(family) = self.taken.mark_conflict(key) {
            self.cluster.load_allocated(&mut self.taken, family).await?;
        }
        self.try_again()
    }

    fn try_again(&mut self) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Err(self.contention()) } else { Ok(()) }
    }

    /// The error after too many conflicts with other writers.
    pub(super) fn contention(&self) -> Error {
        let key = self.key.clone().into_bytes();
        Error::Store(StoreError::Contention { key, attempts: MAX_ATTEMPTS - self.left })
    }
}

/// Whether the store failed. The attempt is not repeated then: if the outcome of its transaction is unknown, the object
/// may differ because of that transaction, and a second attempt would change it twice or be rejected as out of date. Only
/// the size of a transaction follows from the state that the attempt began with.
fn is_store_failure(error: &Error) -> bool {
    matches!(error, Error::Store(failure) if !matches!(failure, StoreError::TooLarge { .. }))
}

impl Cluster {
    /// Starts the attempts to write an object.
    pub(super) async fn attempts<'c>(
        &'c self,
        declaration: &'c Declaration,
        key: String,
        known: Known,
    ) -> Result<Attempts<'c>> {
        let (Get { entry: current, revision }, confirmed) = match known {
            // The transaction verifies that the object is absent.
            Known::Absent => (Get { entry: None, revision: Revision::new(0) }, true),
            Known::Nothing => (self.store.get(&key).await?, true),
            Known::Probable => (self.store.get_at(&key, At::Cached).await?, false),
        };
        let (taken, conditions, left) = (AllocatedSet::default(), Vec::new(), MAX_ATTEMPTS);
        Ok(Attempts {
            cluster: self,
            declaration,
            key,
            current,
            revision,
            confirmed,
            taken,
            conditions,
            left,
            exempt: false,
        })
    }

    fn transaction(
        &self,
        declaration: &Declaration,
        key: &str,
        current: Option<&Entry>,
        plan: &Plan,
    ) -> Option<Txn> {
        let expect = current.map_or(Expect::Absent, |entry| Expect::ModRevision(entry.mod_revision()));
        if matches!(plan.step, Step::Keep) {
            return None;
        }
        // Allocations come first: kube-apiserver reports an allocated value before a conflict on the object itself.
        let mut txn = Txn::new();
        for allocation in &plan.allocations {
            txn = txn.put(self.record(allocation.clone()).expect(Expect::Absent));
        }
        txn = match &plan.step {
            Step::Keep => txn,
            Step::Put(encoded) => {
                let put = Put::new(key, encoded.bytes.clone()).stamp_at(encoded.stamp).expect(expect);
                txn.put(match declaration.time_to_live {
                    Some(time_to_live) => put.ttl(time_to_live),
                    None => put,
                })
            }
            Step::Delete => txn.delete(Delete::new(key).expect(expect)),
        };
        for allocation in &plan.released {
            txn = txn.delete(Delete::new(allocation.key.as_bytes()));
        }
        Some(txn)
    }

    /// The key of the first allocation that exists already.
    async fn first_taken(&self, allocations: &[Allocation]) -> Result<Option<String>> {
        for allocation in allocations {
            if self.store.get(&allocation.key).await?.entry.is_some() {
                return Ok(Some(allocation.key.clone()));
            }
        }
        Ok(None)
    }

    pub(crate) fn record(&self, allocation: Allocation) -> Put {
        match allocation.record {
            Record::Note(holder) => Put::new(allocation.key, holder.to_string()),
            Record::Object(object) => {
                let encoded = Encoded::of(&self.complete(object));
                Put::new(allocation.key, encoded.bytes).stamp_at(encoded.stamp)
            }
        }
    }

    /// Adds the metadata of an allocation that is itself an object.
    pub(crate) fn complete(&self, mut object: Value) -> Value {
        let now = self.now();
        if let Some(mut meta) = MetaMut::of(&mut object) {
            fill_system_fields(&mut meta, &self.new_uid(), now);
        }
        if let Some(Value::Array(managed)) = object.pointer_mut("/metadata/managedFields") {
            managed.iter_mut().for_each(|fields| fields["time"] = now.to_string().into());
        }
        object
    }

    async fn load_allocated(&self, taken: &mut AllocatedSet, family: String) -> Result<()> {
        let range = self.store.range(RangeRequest::prefix(format!("{family}/"))).await?;
        let keys = range.entries.iter().map(|entry| String::from_utf8_lossy(entry.key()).into_owned());
        taken.load(keys);
        Ok(())
    }
}
