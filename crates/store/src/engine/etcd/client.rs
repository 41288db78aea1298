//! The members of the cluster, and the selection of one for each request.
//!
//! Every member has one connection for requests and one for watches, opened on first use. Requests go to one member
//! until it fails, then to the next.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coracle_base::{Backoff, Rng};
use futures_util::Stream;
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use super::failure::Failure;
use super::health::Health;
use super::options::Options;
use super::proto::{RangeRequest, StatusRequest, StatusResponse, WatchRequest, WatchResponse};
use super::rpc::{self, Method};
use super::session::{self, Session};
use crate::error::{Error, Result};

/// The first pause after a failed attempt: a lost connection is often restored at once.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause: a leader election takes about a second.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Fraction of the request timeout that an attempt at one member gets if the request can be repeated, so that a
/// hanging member leaves time for another.
const ATTEMPT_SHARE: u32 = 3;

/// With this in its metadata, a watch ends when its member has lost the leader, instead of waiting for events that
/// the member no longer receives. Requests do not need it: a member holds them back until there is a leader again,
/// which an election soon provides.
const REQUIRE_LEADER: (&str, &str) = ("hasleader", "true");

/// The connections to a cluster.
pub(super) struct Client {
    members: Vec<Member>,
    /// Index of the member that requests go to.
    current: AtomicUsize,
    session: Option<Session>,
    connect_timeout: Duration,
    request_timeout: Duration,
    closed: CancellationToken,
    pub(super) health: Health,
}

struct Member {
    url: String,
    requests: Channel,
    watches: Channel,
}

/// Condition under which a failed request may be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// After any failure: the request is idempotent.
    Always,
    /// Only if it was certainly not sent.
    IfUnsent,
}

impl Client {
    /// Creates a client without connecting.
    pub(super) fn new(options: &Options, closed: CancellationToken) -> Result<Self> {
        let member = |url: &String| {
            let requests = options.request_endpoint(url)?.connect_lazy();
            let watches = options.watch_endpoint(url)?.connect_lazy();
            Ok(Member { url: url.clone(), requests, watches })
        };
        Ok(Self {
            members: options.endpoints.iter().map(member).collect::<Result<_>>()?,
            current: AtomicUsize::new(0),
            session: options.auth.clone().map(|(user, password)| Session::new(user, password)),
            connect_timeout: options.connect_timeout,
            request_timeout: options.request_timeout,
            closed,
            health: Health::default(),
        })
    }

    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Sends a read to each member in turn, once, and fails if none responds.
    pub(super) async fn probe(&self, request: &RangeRequest) -> Result<()> {
        let share = self.request_timeout / u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let mut reasons = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            let call = timeout(share, self.attempt(at, &rpc::RANGE, request.clone()));
            match call.await.unwrap_or_else(|_| Err(Failure::no_answer(&member.url))) {
                Ok(_) => {
                    self.current.store(at, Ordering::Relaxed);
                    return Ok(());
                }
                Err(Failure::Unsent(reason) | Failure::Unanswered(reason)) => reasons.push(reason),
                Err(other) => return Err(other.into_read_error()),
            }
        }
        Err(Error::Unavailable(reasons.join("; ")))
    }

    /// Sends a request to the members in turn until one responds, within the request timeout.
    pub(super) async fn call<Q, S>(
        &self,
        method: &Method<Q, S>,
        repeat: Repeat,
        request: Q,
    ) -> Result<S, Failure>
    where
        Q: Message + Clone + 'static,
        S: Message + Default + 'static,
    {
        self.retried(repeat, |member| self.attempt(member, method, request.clone())).await
    }

    /// Status of one member.
    pub(super) async fn status(&self, member: usize) -> Result<StatusResponse, Failure> {
        let call = timeout(self.request_timeout, self.attempt(member, &rpc::STATUS, StatusRequest {}));
        call.await.unwrap_or_else(|_| Err(Failure::no_answer(&self.members[member].url)))
    }

    /// Status of the member that requests go to.
    pub(super) async fn current_status(&self) -> Result<StatusResponse, Failure> {
        self.call(&rpc::STATUS, Repeat::Always, StatusRequest {}).await
    }

    /// Opens a watch stream to the given member.
    pub(super) async fn open_watch<R>(
        &self,
        at: usize,
        requests: R,
    ) -> Result<Streaming<WatchResponse>, Failure>
    where
        R: Stream<Item = WatchRequest> + Send + 'static,
    {
        let member = &self.members[at];
        let mut request = self.prepared(member, requests).await?;
        let (name, value) = REQUIRE_LEADER;
        request.metadata_mut().insert(name, MetadataValue::from_static(value));
        let opened = rpc::WATCH.stream(member.watches.clone(), request).await;
        opened.map_err(|status| Failure::of_call(&member.url, &status))
    }

    /// Directs requests to the leader from now on, if it is one of the configured members and responds.
    pub(super) async fn prefer_leader(&self) {
        if self.members.len() > 1 {
            // Only an optimization, so it must not take longer than a connection attempt.
            let _ = timeout(self.connect_timeout, self.find_leader()).await;
        }
    }

    async fn find_leader(&self) {
        let current = self.current();
        let others = (0..self.members.len()).filter(|at| *at != current);
        for at in std::iter::once(current).chain(others) {
            if self.status(at).await.is_ok_and(|status| status.is_leader()) {
                // Unless requests have moved to another member meanwhile, because this one may have failed.
                let _ = self.current.compare_exchange(current, at, Ordering::Relaxed, Ordering::Relaxed);
                return;
            }
        }
    }

    pub(super) fn url(&self, member: usize) -> &str {
        &self.members[member].url
    }

    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Moves requests from this member to the next, unless another request has already done so.
    pub(super) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn forget_token(&self) {
        if let Some(session) = &self.session {
            session.forget_token();
        }
    }

    pub(super) fn backoff() -> Backoff {
        Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, Rng::from_entropy())
    }

    /// Runs `attempt` with one member after the other until one succeeds, the failure is final, or the time is over;
    /// records the cluster's health from the outcome.
    pub(super) async fn retried<T, F>(
        &self,
        repeat: Repeat,
        attempt: impl Fn(usize) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let outcome = self.attempts(repeat, attempt).await;
        self.health.note(&outcome);
        outcome
    }

    async fn attempts<T, F>(&self, repeat: Repeat, attempt: impl Fn(usize) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.request_timeout;
        let mut backoff = Self::backoff();
        let mut new_token = self.session.is_some();
        loop {
            let member = self.current();
            let until = self.attempt_until(repeat, deadline);
            let outcome = timeout_at(until, attempt(member)).await;
            let failure = match outcome.unwrap_or_else(|_| Err(Failure::no_answer(self.url(member)))) {
                Ok(answer) => return Ok(answer),
                Err(failure) if new_token && failure.may_be_the_token() => {
                    new_token = false;
                    self.forget_token();
                    continue;
                }
                Err(failure) => failure,
            };
            match (&failure, repeat) {
                (Failure::Unsent(_), _) | (Failure::Unanswered(_), Repeat::Always) => self.leave(member),
                _ => return Err(failure),
            }
            if !self.pause(&mut backoff, deadline).await {
                return Err(failure);
            }
        }
    }

    fn attempt_until(&self, repeat: Repeat, deadline: Instant) -> Instant {
        match repeat {
            // A request that must not be repeated gets all the remaining time.
            Repeat::IfUnsent => deadline,
            Repeat::Always => deadline.min(Instant::now() + self.request_timeout / ATTEMPT_SHARE),
        }
    }

    /// Waits before the next attempt; returns false if there is no time for one. An attempt gets at least the connect
    /// timeout: if it were cut short earlier, a write that was not sent would look like one with an unknown outcome.
    async fn pause(&self, backoff: &mut Backoff, deadline: Instant) -> bool {
        let pause = backoff.next_delay();
        if Instant::now() + pause + self.connect_timeout > deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }

    async fn attempt<Q, S>(&self, at: usize, method: &Method<Q, S>, request: Q) -> Result<S, Failure>
    where
        Q: Message + 'static,
        S: Message + Default + 'static,
    {
        let member = &self.members[at];
        let request = self.prepared(member, request).await?;
        let answer = method.unary(member.requests.clone(), request).await;
        answer.map_err(|status| Failure::of_call(&member.url, &status))
    }

    async fn prepared<T>(&self, member: &Member, message: T) -> Result<Request<T>, Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::Closed);
        }
        let mut request = Request::new(message);
        if let Some(session) = &self.session {
            session::attach(&mut request, session.token(&member.url, member.requests.clone()).await?);
        }
        Ok(request)
    }
}
