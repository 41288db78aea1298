//! Writing: a transaction of the store is one transaction of etcd.

use prost::Message;
use tonic::Code;

use super::client::Repeat;
use super::cluster::Cluster;
use super::failure::Failure;
use super::proto::{
    self, Compare, NO_END, Operation, Outcome, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use super::{rpc, value};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::txn::{Committed, Expect, Op, Put, Txn};

/// The largest request etcd takes unless it is configured otherwise (`--max-request-bytes`).
const ETCD_REQUEST_BYTES: usize = 1536 << 10;

impl Cluster {
    pub(super) async fn commit(&self, txn: Txn) -> Result<Committed> {
        if txn.ops.is_empty() && txn.conditions().next().is_none() {
            // Etcd answers an empty transaction from the member's own state, which may lag.
            let revision = self.revision().await?;
            return Ok(Committed { revision, previous: Vec::new(), deleted: 0 });
        }
        let mut answer = self.send(&txn).await?;
        // Of all refusals this code is only used for a lease that is gone.
        if answer.as_ref().is_err_and(|sent| sent.failure.is_rejected_with(Code::NotFound)) {
            self.leases.forget_all();
            answer = self.send(&txn).await?;
        }
        if let Ok(answer) = &answer {
            // Also of a conflict, so that whoever tries again with a cached read does not find the old state again.
            self.saw(value::to_revision(proto::revision(&answer.header)));
        }
        match answer {
            Ok(answer) if answer.succeeded => self.committed(&txn, answer),
            Ok(answer) => Err(self.conflict(&txn, &answer)),
            Err(refused) => Err(refused.into_error()),
        }
    }

    /// The outer error is one of preparing the request: it was not sent.
    async fn send(&self, txn: &Txn) -> Result<Result<TxnResponse, NotCommitted>> {
        let request = self.txn_request(txn).await?;
        let bytes = request.encoded_len();
        let answer = self.client.call(&rpc::TXN, Repeat::IfUnsent, request).await;
        if bytes <= ETCD_REQUEST_BYTES {
            self.client.health.note_write(&answer);
        }
        Ok(answer.map_err(|failure| NotCommitted { failure, bytes }))
    }

    async fn txn_request(&self, txn: &Txn) -> Result<TxnRequest> {
        let compare =
            |(key, expect)| Compare::mod_revision_is(self.keyspace.full_key(key), expected_number(expect));
        let mut success = Vec::with_capacity(txn.ops.len());
        for op in &txn.ops {
            success.push(self.operation(op).await?.into());
        }
        Ok(TxnRequest {
            compare: txn.conditions().map(compare).collect(),
            success,
            failure: txn.conditions().map(|(key, _)| self.read_of(key)).collect(),
        })
    }

    async fn operation(&self, op: &Op) -> Result<Operation> {
        Ok(match op {
            Op::Put(put) => Operation::Put(self.put_request(put).await?),
            Op::Delete(delete) => Operation::DeleteRange(proto::DeleteRangeRequest {
                key: self.keyspace.full_key(&delete.key),
                range_end: NO_END,
                prev_kv: true,
            }),
            Op::DeletePrefix(prefix) => Operation::DeleteRange(proto::DeleteRangeRequest {
                key: self.keyspace.full_key(prefix),
                range_end: self.keyspace.prefix_end(prefix),
                prev_kv: false,
            }),
        })
    }

    async fn put_request(&self, put: &Put) -> Result<proto::PutRequest> {
        let expires_at = put.ttl.map(|ttl| self.clock.now() + ttl);
        let lease = match put.ttl {
            Some(ttl) => self.lease(ttl).await?,
            None => 0,
        };
        let value = value::encode(&put.value, put.stamp, expires_at);
        Ok(proto::PutRequest { key: self.keyspace.full_key(&put.key), value, lease, prev_kv: true })
    }

    /// What is done in place of the transaction if a condition fails: its key is read.
    fn read_of(&self, key: &[u8]) -> RequestOp {
        let (key, range_end) = (self.keyspace.full_key(key), NO_END);
        let limit = 1;
        Operation::Range(proto::RangeRequest { key, range_end, limit, revision: 0, count_only: false }).into()
    }

    fn committed(&self, txn: &Txn, answer: TxnResponse) -> Result<Committed> {
        let revision = value::to_revision(proto::revision(&answer.header));
        let mut committed = Committed { revision, previous: Vec::new(), deleted: 0 };
        for (op, response) in txn.ops.iter().zip(answer.responses) {
            let (previous, deleted) = match response.outcome {
                Some(Outcome::Put(put)) => (put.prev_kv, 0),
                Some(Outcome::DeleteRange(delete)) => (delete.prev_kvs.into_iter().next(), delete.deleted),
                Some(Outcome::Range(_)) | None => (None, 0),
            };
            match op {
                Op::DeletePrefix(_) => committed.deleted += deleted.unsigned_abs(),
                Op::Put(_) | Op::Delete(_) => {
                    committed.previous.push(previous.map(|kv| self.entry(&kv)).transpose()?);
                }
            }
        }
        Ok(committed)
    }

    /// The first condition that did not hold, with what was found instead.
    fn conflict(&self, txn: &Txn, answer: &TxnResponse) -> Error {
        for ((key, expected), response) in txn.conditions().zip(&answer.responses) {
            match self.found(response) {
                Ok(found) if !expected.is_met_by(found.as_ref().map(Entry::mod_revision)) => {
                    return Error::conflict(key, expected, found);
                }
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        Error::Refused("the transaction failed although all of its conditions hold".to_owned())
    }

    fn found(&self, response: &ResponseOp) -> Result<Option<Entry>> {
        match &response.outcome {
            Some(Outcome::Range(range)) => range.kvs.first().map(|kv| self.entry(kv)).transpose(),
            _ => Ok(None),
        }
    }
}

/// A transaction that failed, with its size.
struct NotCommitted {
    failure: Failure,
    bytes: usize,
}

impl NotCommitted {
    fn into_error(self) -> Error {
        let Self { failure, bytes } = self;
        // Etcd and gRPC each have a code for a request that is too large, and use it for
        // other refusals too; the size tells. A cluster with a smaller limit of its own gives
        // its refusal in its own words.
        let codes = [Code::InvalidArgument, Code::ResourceExhausted];
        if bytes > ETCD_REQUEST_BYTES && codes.iter().any(|code| failure.is_rejected_with(*code)) {
            return Error::TooLarge { what: "transaction for etcd", bytes, limit: ETCD_REQUEST_BYTES };
        }
        failure.into_write_error()
    }
}

/// The mod revision etcd is to compare with; a missing key has 0 there.
fn expected_number(expect: Expect) -> i64 {
    match expect {
        Expect::Absent | Expect::Any => 0,
        // Revision 0 and those beyond etcd's numbers are no key's revision.
        Expect::ModRevision(revision) => match i64::try_from(revision.get()) {
            Ok(0) | Err(_) => i64::MAX,
            Ok(number) => number,
        },
    }
}
