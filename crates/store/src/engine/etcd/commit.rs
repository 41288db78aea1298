//! Writes: a transaction of the store is one transaction of etcd.

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

/// The largest request that etcd accepts by default (`--max-request-bytes`).
const ETCD_REQUEST_BYTES: usize = 1536 << 10;

impl Cluster {
    pub(super) async fn commit(&self, txn: Txn) -> Result<Committed> {
        if txn.ops.is_empty() && txn.conditions().next().is_none() {
            // A member answers an empty transaction from its own state, which may be stale.
            let revision = self.revision().await?;
            return Ok(Committed { revision, previous: Vec::new(), deleted: 0 });
        }
        let mut answer = self.send(&txn).await?;
        // Among rejections, only a missing lease has this code.
        if answer.as_ref().is_err_and(|sent| sent.failure.is_rejected_with(Code::NotFound)) {
            self.leases.forget_all();
            answer = self.send(&txn).await?;
        }
        if let Ok(answer) = &answer {
            // Also after a conflict, so that a retry with a cached read does not get the old state again.
            self.saw(value::to_revision(proto::revision(&answer.header)));
        }
        match answer {
            Ok(answer) if answer.succeeded => self.committed(&txn, answer),
            Ok(answer) => Err(self.conflict(&txn, &answer)),
            Err(refused) => Err(refused.into_error()),
        }
    }

    /// The outer error is one of preparing the request, which was not sent.
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

    /// Read of the key of a condition, executed instead of the transaction if a condition fails.
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

    /// The first condition that failed, with the entry found.
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

/// A failed transaction, with its size.
struct NotCommitted {
    failure: Failure,
    bytes: usize,
}

impl NotCommitted {
    fn into_error(self) -> Error {
        let Self { failure, bytes } = self;
        // Etcd and gRPC each have a code for a request that is too large, and use it for other errors too; the size
        // distinguishes them. If the cluster is configured with a smaller limit, its own message is returned.
        let codes = [Code::InvalidArgument, Code::ResourceExhausted];
        if bytes > ETCD_REQUEST_BYTES && codes.iter().any(|code| failure.is_rejected_with(*code)) {
            return Error::TooLarge { what: "transaction for etcd", bytes, limit: ETCD_REQUEST_BYTES };
        }
        failure.into_write_error()
    }
}

/// The mod revision for etcd's comparison; a missing key has 0.
fn expected_number(expect: Expect) -> i64 {
    match expect {
        Expect::Absent | Expect::Any => 0,
        // Revision 0 and those beyond etcd's range are no key's revision.
        Expect::ModRevision(revision) => match i64::try_from(revision.get()) {
            Ok(0) | Err(_) => i64::MAX,
            Ok(number) => number,
        },
    }
}
