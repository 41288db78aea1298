//! Writes over a base: conditions on the base's keys are translated to conditions on the scope's own keys.

use std::collections::HashMap;

use super::{Layered, Own};
use crate::entry::Entry;
use crate::error::{Conflict, Error, Result};
use crate::read::At;
use crate::revision::Revision;
use crate::txn::{Committed, Expect, Op, Put, Txn};

/// Maximum attempts of a write whose conditions hold although the translated ones do not, because of a concurrent
/// write.
const MAX_ATTEMPTS: u32 = 256;

/// A revision that no key has.
const NEVER: Revision = Revision::new(0);

/// A transaction on the scope's own keys.
struct Translated {
    txn: Txn,
    /// Indexes of the single-key operations that are omitted: deletes of keys that are deleted already.
    omitted: Vec<usize>,
}

impl Layered {
    pub(super) async fn write(&self, txn: Txn) -> Result<Committed> {
        let keys: Vec<Vec<u8>> =
            touched(&txn).filter(|key| self.base.contains(key)).map(<[u8]>::to_vec).collect();
        if keys.is_empty() {
            return self.own.commit_valid(txn).await;
        }
        for _ in 0..MAX_ATTEMPTS {
            let own = self.own_states(&keys).await?;
            let Translated { txn: translated, omitted } = self.translate(&txn, &own);
            match self.own.commit_valid(translated).await {
                Ok(committed) => return Ok(self.visible_result(&txn, committed, &omitted)),
                Err(Error::Conflict(conflict)) => {
                    if let Some(conflict) = self.visible_conflict(&txn, *conflict) {
                        return Err(Error::Conflict(Box::new(conflict)));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let key = keys.into_iter().next().unwrap_or_default();
        Err(Error::Contention { key, attempts: MAX_ATTEMPTS })
    }

    async fn own_states(&self, keys: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, Own>> {
        let mut states = HashMap::with_capacity(keys.len());
        for key in keys {
            // May be stale: it is only translated to conditions, and a conflict returns the newer state.
            states.insert(key.clone(), Own::of(self.own.get_at(key, At::Cached).await?.entry));
        }
        Ok(states)
    }

    fn translate(&self, txn: &Txn, own: &HashMap<Vec<u8>, Own>) -> Translated {
        let mut translated = Txn::default();
        for (key, expect) in &txn.checks {
            translated.checks.push((key.clone(), self.translate_expect(*expect, own.get(key))));
        }
        let mut omitted = Vec::new();
        let mut position = 0;
        for op in &txn.ops {
            match op {
                Op::Put(put) => {
                    let expect = self.translate_expect(put.expect, own.get(&put.key));
                    translated.ops.push(Op::Put(Put { expect, ..put.clone() }));
                }
                Op::Delete(delete) => {
                    let state = own.get(&delete.key);
                    let expect = self.translate_expect(delete.expect, state);
                    match state {
                        None => translated.ops.push(op.clone()),
                        Some(Own::Whiteout(at)) if expect != Expect::ModRevision(NEVER) => {
                            omitted.push(position);
                            // Even without a condition, the key must still be deleted.
                            translated.checks.push((delete.key.clone(), Expect::ModRevision(*at)));
                        }
                        Some(_) => {
                            let whiteout = Put::new(delete.key.clone(), "").expect(expect);
                            translated.ops.push(Op::Put(whiteout));
                        }
                    }
                }
                Op::DeletePrefix(_) => {
                    translated.ops.push(op.clone());
                    continue;
                }
            }
            position += 1;
        }
        Translated { txn: translated, omitted }
    }

    /// Translates a condition to the scope's own key. One that does not hold becomes one that never holds, so that
    /// the engine reports it in the order of the conditions.
    fn translate_expect(&self, expect: Expect, own: Option<&Own>) -> Expect {
        match (own, expect) {
            (Some(Own::Nothing), Expect::ModRevision(revision)) if revision == self.base.revision() => {
                Expect::Absent
            }
            (Some(Own::Nothing), Expect::Absent | Expect::ModRevision(_))
            | (Some(Own::Whiteout(_)), Expect::ModRevision(_)) => Expect::ModRevision(NEVER),
            (Some(Own::Whiteout(at)), Expect::Absent) => Expect::ModRevision(*at),
            (_, expect) => expect,
        }
    }

    /// The result from the caller's point of view.
    fn visible_result(&self, txn: &Txn, mut committed: Committed, omitted: &[usize]) -> Committed {
        for position in omitted {
            committed.previous.insert(*position, None);
        }
        let single = txn.ops.iter().filter_map(|op| match op {
            Op::Put(put) => Some(&put.key),
            Op::Delete(delete) => Some(&delete.key),
            Op::DeletePrefix(_) => None,
        });
        for (position, key) in single.enumerate() {
            if !self.base.contains(key) || omitted.contains(&position) {
                continue;
            }
            if let Some(previous) = committed.previous.get_mut(position) {
                *previous = self.visible(key, Own::of(previous.take()));
            }
        }
        committed
    }

    /// The conflict from the caller's point of view; none if the caller's condition holds.
    fn visible_conflict(&self, txn: &Txn, conflict: Conflict) -> Option<Conflict> {
        if !self.base.contains(&conflict.key) {
            return Some(conflict);
        }
        let Conflict { key, found, .. } = conflict;
        let found = self.visible(&key, Own::of(found));
        let revision: Option<Revision> = found.as_ref().map(Entry::mod_revision);
        let mut conditions = txn.conditions().filter(|(of, _)| *of == key.as_slice());
        let (_, expected) = conditions.find(|(_, expect)| !expect.is_met_by(revision))?;
        Some(Conflict { expected, found, key })
    }
}

/// All keys of single-key operations and checks.
fn touched(txn: &Txn) -> impl Iterator<Item = &[u8]> {
    let written = txn.ops.iter().filter_map(|op| match op {
        Op::Put(put) => Some(put.key.as_slice()),
        Op::Delete(delete) => Some(delete.key.as_slice()),
        Op::DeletePrefix(_) => None,
    });
    txn.checks.iter().map(|(key, _)| key.as_slice()).chain(written)
}
