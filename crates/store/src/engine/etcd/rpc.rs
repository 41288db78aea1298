//! gRPC calls of etcd's methods: a table of methods, unary and streaming.

use std::marker::PhantomData;

use futures_util::Stream;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::proto;

/// A method of etcd with its request and response types.
pub(super) struct Method<Q, S> {
    path: &'static str,
    /// Maximum size of a response.
    answer_limit: usize,
    messages: PhantomData<fn(Q) -> S>,
}

/// Fits a page of a range, whose target size is a few megabytes, and the largest entry. A larger page is rejected
/// before it has arrived, and requested again with half the entries.
const PAGE_LIMIT: usize = 16 << 20;

/// The largest gRPC message. For responses that cannot be split: that of a transaction, bounded by its operations,
/// and of a watch, which etcd bounds by 1000 revisions. Rejecting one would lose the outcome, or end the watch
/// permanently.
const WHOLE_ANSWER_LIMIT: usize = i32::MAX as usize;

/// More than enough for responses of fixed size.
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
    /// A unary call.
    pub(super) async fn unary(&self, channel: Channel, request: Request<Q>) -> Result<S, Status> {
        let mut grpc = self.ready(channel).await?;
        let codec: ProstCodec<Q, S> = ProstCodec::default();
        Ok(grpc.unary(request, self.path(), codec).await?.into_inner())
    }

    /// A streaming call.
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
