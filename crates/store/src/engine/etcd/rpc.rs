//! Calling etcd's methods over gRPC: one table of paths, two ways to call.

use std::marker::PhantomData;

use futures_util::Stream;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::proto;

/// A method of etcd with the messages it takes and gives.
pub(super) struct Method<Q, S> {
    path: &'static str,
    /// The largest answer that is accepted.
    answer_limit: usize,
    messages: PhantomData<fn(Q) -> S>,
}

/// Room for a page of a range, which is aimed at a few megabytes, and for the largest entry.
/// A page beyond this is refused before it has arrived, and asked for again by halves.
const PAGE_LIMIT: usize = 16 << 20;

/// The largest message gRPC has. For answers that cannot be asked for in smaller pieces: a
/// transaction's, bounded by its operations, and a watch's, which etcd bounds by 1000
/// revisions. Refusing one would lose the outcome, or end the watch for ever.
const WHOLE_ANSWER_LIMIT: usize = i32::MAX as usize;

/// Plenty for answers of a fixed size.
const SMALL_LIMIT: usize = 1 << 20;

impl<Q, S> Method<Q, S> {
    const fn new(path: &'static str, answer_limit: usize) -> Self {
        Self { path, answer_limit, messages: PhantomData }
    }
}

pub(super) const RANGE: Method<proto::RangeRequest, proto::RangeResponse> =
    Method::new("/etcdserverpb.KV/Range", PAGE_LIMIT);
pub(super) const TXN: Method<proto::TxnRequest, proto::TxnResponse> =
    Method::new("/etcdserverpb.KV/Txn", WHOLE_ANSWER_LIMIT);
pub(super) const COMPACT: Method<proto::CompactionRequest, proto::CompactionResponse> =
    Method::new("/etcdserverpb.KV/Compact", SMALL_LIMIT);
pub(super) const WATCH: Method<proto::WatchRequest, proto::WatchResponse> =
    Method::new("/etcdserverpb.Watch/Watch", WHOLE_ANSWER_LIMIT);
pub(super) const LEASE_GRANT: Method<proto::LeaseGrantRequest, proto::LeaseGrantResponse> =
    Method::new("/etcdserverpb.Lease/LeaseGrant", SMALL_LIMIT);
pub(super) const AUTHENTICATE: Method<proto::AuthenticateRequest, proto::AuthenticateResponse> =
    Method::new("/etcdserverpb.Auth/Authenticate", SMALL_LIMIT);
pub(super) const STATUS: Method<proto::StatusRequest, proto::StatusResponse> =
    Method::new("/etcdserverpb.Maintenance/Status", SMALL_LIMIT);

impl<Q, S> Method<Q, S>
where
    Q: Message + 'static,
    S: Message + Default + 'static,
{
    /// One request, one answer.
    pub(super) async fn unary(&self, channel: Channel, request: Request<Q>) -> Result<S, Status> {
        let mut grpc = self.ready(channel).await?;
        let codec: ProstCodec<Q, S> = ProstCodec::default();
        Ok(grpc.unary(request, self.path(), codec).await?.into_inner())
    }

    /// Many requests, many answers.
    pub(super) async fn stream<R>(
        &self,
        channel: Channel,
        request: Request<R>,
    ) -> Result<Streaming<S>, Status>
    where
        R: Stream<Item = Q> + Send + 'static,
    {
        let mut grpc = self.ready(channel).await?;
        let codec: ProstCodec<Q, S> = ProstCodec::default();
        grpc.streaming(request, self.path(), codec).await.map(Response::into_inner)
    }

    async fn ready(&self, channel: Channel) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(self.answer_limit);
        grpc.ready().await.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
        Ok(grpc)
    }

    fn path(&self) -> PathAndQuery {
        PathAndQuery::from_static(self.path)
    }
}
