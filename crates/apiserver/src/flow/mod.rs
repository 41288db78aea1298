//! API Priority and Fairness: how many requests are executed at once, and which of the waiting ones is next.
//!
//! Every request is classified by the FlowSchemas of its cluster and executed at the priority level of the schema that
//! matches, as in kube-apiserver. A request takes its seats until its response has been sent; a watch until it begins.
//! Other long-running requests take none. The seats follow from the estimated `work`: lists take more by the size of
//! their objects (`object_stats`), writes keep some for the watches that receive their event (`watch_counts`).
//!
//! Seats are divided twice. Clusters with requests get equal parts of [`FlowLimits::requests`]
//! (`seat_limits`), so that a flood in one cluster leaves the seats of others alone. The levels of a cluster divide its
//! part by their shares, and lend each other the seats they do not use. Within a level, shuffle sharding
//! gives each flow some queues (`shuffle_sharding`), and fair queuing serves them (`queue_set`).
//!
//! The user of a request is the authenticated one, also if it impersonates another: a user cannot
//! choose the flow that its requests belong to. Only the operator of the server is exempt. The FlowSchemas of a
//! cluster belong to its administrators, and those of one cluster must not be able to exceed its part.
//!
//! Request bodies (`bodies`) and unread responses (`unread`) have limits in memory of their own, per user.

mod bodies;
mod cluster_seats;
mod configuration;
mod dump;
mod flow_schema;
mod level_series;
mod metrics;
mod object_stats;
mod priority_level;
mod queue_set;
mod requests;
mod seat_limits;
mod seats;
mod series;
mod shuffle_sharding;
mod unread;
mod users;
mod watch_counts;
mod work;

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_base::metrics::Text;
use coracle_registry::{Cluster, Entry, Identity};
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::body::{Held, ResponseBody};
use crate::cluster_cache::ClusterLru;
use crate::identity::Caller;
use crate::request_info::RequestInfo;
use crate::status::Refusal;
pub(crate) use bodies::{Bodies, BodiesFull, Reservation};
use configuration::ClusterFlow;
pub(crate) use configuration::PfHeaders;
pub(crate) use dump::Dump;
use object_stats::Found;
use requests::RequestSummary;
pub(crate) use seats::Seat;
use seats::{Assignment, Classified, Seats};
use series::Rejection;
use shuffle_sharding::flow_hash;
pub(crate) use unread::{Charge, Unread, Verdict};
use users::{User, Users};
use watch_counts::{CountedWatch, WatchCounts};
use work::Work;

/// How many requests are executed at once, and how many wait.
#[derive(Clone, Copy, Debug)]
pub struct FlowLimits {
    /// Seats: requests of all clusters that are executed at once, those of the operator not counted. FlowSchemas and
    /// PriorityLevelConfigurations of each cluster divide its part of them.
    pub requests: usize,
    /// Requests of all clusters that wait. Each cluster with requests gets an equal part; further requests are rejected
    /// with 429 even if their queue has room.
    pub waiting: usize,
    /// How long a request waits. Then it is rejected with 429.
    pub wait: Duration,
    /// Watches and other long-running requests of one user. Further ones are rejected with 429.
    pub long_running_per_user: usize,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self {
            // `--max-requests-inflight` and `--max-mutating-requests-inflight` of kube-apiserver together.
            requests: 600,
            // A few KiB each, beside their bodies, which are counted apart.
            waiting: 16_384,
            // A quarter of the time a request may take, as in kube-apiserver.
            wait: Duration::from_secs(15),
            // A controller watches some hundred resources at most. A watch costs some KiB.
            long_running_per_user: 10_000,
        }
    }
}

/// How often a waiting request applies changes of the configuration. Each new request of the cluster does so, too; this is
/// for clusters whose requests all wait.
const CONFIGURATION_INTERVAL: Duration = Duration::from_secs(1);

/// Gives requests their seats. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FlowControl {
    seats: Arc<Seats>,
    clusters: Arc<ClusterLru<ClusterFlow>>,
    bodies: Arc<Bodies>,
    users: Arc<Users>,
    watches: Arc<WatchCounts>,
    wait: Duration,
    long_running_per_user: usize,
}

/// The user that a request is attributed to: the authenticated one, also if it impersonates another.
pub(crate) struct FlowClient {
    /// Cluster and name: users of two clusters may have the same name.
    key: Arc<str>,
    user: Arc<User>,
    /// None within the process.
    unread: Option<Arc<Unread>>,
    /// Set for a watch that is counted while it runs.
    watch: Option<CountedWatch>,
}

impl FlowClient {
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns true if the request came over a connection.
    pub(crate) fn is_remote(&self) -> bool {
        self.unread.is_some()
    }
}

/// A classified request on its way to a seat.
pub(crate) struct Candidate(Classified);

impl Candidate {
    /// The headers of its response.
    pub(crate) fn headers(&self) -> PfHeaders {
        self.0.flow.headers()
    }
}

/// The seat of a request while it is executed, or the mark that it takes none.
pub(crate) enum Admission {
    Seat(Seat),
    /// Long-running requests other than watches take no seat, as in kube-apiserver.
    LongRunning {
        /// Requests of the operator are not counted.
        is_operator: bool,
    },
}

impl Default for FlowControl {
    fn default() -> Self {
        Self::new(&FlowLimits::default())
    }
}

impl FlowControl {
    pub(crate) fn new(limits: &FlowLimits) -> Self {
        Self {
            seats: Arc::new(Seats::new(limits.requests, limits.waiting)),
            clusters: Arc::default(),
            bodies: Arc::default(),
            users: Arc::default(),
            watches: Arc::default(),
            wait: limits.wait,
            long_running_per_user: limits.long_running_per_user,
        }
    }

    /// How many configurations, and users of clusters other than the default one, are held.
    pub(crate) fn cached_clusters(&self) -> usize {
        self.clusters.len() + self.users.of_other_clusters()
    }

    pub(crate) fn bodies(&self) -> &Arc<Bodies> {
        &self.bodies
    }

    /// Finds the FlowSchema of a request. None for long-running requests that take no seat.
    pub(crate) async fn classify(
        &self,
        cluster: &Cluster,
        caller: &Caller,
        info: &Arc<RequestInfo>,
    ) -> Result<Option<Candidate>, Refusal> {
        if info.is_long_running() && !info.is_watch() {
            return Ok(None);
        }
        let cluster_flow = self.cluster(cluster);
        let config = cluster_flow.refresh(cluster).await?;
        let attributes = info.attributes();
        let Some(flow) = config.classify(caller, &attributes).cloned() else { return Ok(None) };
        let hash = flow_hash(&flow.schema.name, flow.schema.distinguish(&caller.identity, &attributes));
        let work = Work::of(info, &cluster_flow.id, &cluster_flow.stats, &self.watches);
        let request = RequestSummary::new(&caller.identity, info);
        let (cluster, is_watch) = (cluster_flow, info.is_watch());
        Ok(Some(Candidate(Classified { cluster, config, flow, request, hash, work, is_watch })))
    }

    /// Counts a watch of a cluster, or of all, from now until its response ends. Other requests are not counted.
    pub(crate) fn count_watch(&self, client: &mut FlowClient, cluster: &Cluster, info: &RequestInfo) {
        if info.is_watch() {
            let selected = if info.cluster().is_all() {
                coracle_registry::lifecycle::ALL_CLUSTERS
            } else {
                cluster.id()
            };
            client.watch = self.watches.begin(selected, info);
        }
    }

    /// Notes the number and size of listed objects, for estimating later lists. `remaining` are those after the page.
    pub(crate) fn note_list(
        &self,
        cluster: &Cluster,
        [group, resource]: [&str; 2],
        entries: &[Entry],
        remaining: u64,
        is_all: bool,
    ) {
        let seen = entries.len() as u64;
        let bytes = entries.iter().map(|entry| entry.value_len() as u64).sum();
        let stats = &self.cluster(cluster).stats;
        let found = Found { objects: seen + remaining, seen, bytes, is_all };
        stats.note_list(group, resource, found);
    }

    /// Notes that an object was created or deleted.
    pub(crate) fn note_change(&self, cluster: &Cluster, [group, resource]: [&str; 2], is_created: bool) {
        self.cluster(cluster).stats.note_change(group, resource, is_created);
    }

    /// Gives a request its seat, maybe after it has waited. Safe to drop: a dropped request leaves its queue.
    pub(crate) async fn enter(&self, candidate: Candidate) -> Result<Seat, Refusal> {
        let mut waiting = match self.seats.take(candidate.0)? {
            Assignment::Seat(seat) => return Ok(seat),
            Assignment::Queue(waiting) => waiting,
        };
        let deadline = Instant::now() + self.wait;
        loop {
            let until = deadline.min(Instant::now() + CONFIGURATION_INTERVAL);
            match tokio::time::timeout_at(until, &mut waiting).await {
                Ok(seat) => return Ok(seat),
                Err(_) if until < deadline => waiting.reconfigure(),
                Err(_) => {
                    waiting.time_out();
                    return Err(Rejection::TimeOut.into());
                }
            }
        }
    }

    /// Returns the user that a request counts for. A user that has left too much of its responses unread is rejected.
    pub(crate) fn client(
        &self,
        cluster: &Cluster,
        caller: &Identity,
        unread: Option<Arc<Unread>>,
        lasts: bool,
    ) -> Result<FlowClient, Refusal> {
        let key: Arc<str> = format!("{}/{}", cluster.id(), caller.name).into();
        let user = self.users.get(&key);
        if let Some(unread) = &unread {
            if user.is_saturated() {
                return Err(Refusal::too_many_requests());
            }
            unread.belongs_to(user.clone(), lasts);
        }
        Ok(FlowClient { key, user, unread, watch: None })
    }

    /// Attaches the seat to the response. The seat is released now, or once the last of a response has been sent that
    /// is still being produced. A long-running response has no seat and is counted separately.
    pub(crate) fn leave(
        &self,
        admission: Admission,
        mut client: FlowClient,
        lasts: bool,
        response: Response<ResponseBody>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        let watch = client.watch.take();
        match admission {
            Admission::LongRunning { is_operator: true } => Ok(response),
            Admission::Seat(seat) if lasts && seat.is_exempt() => Ok(match watch {
                None => response,
                Some(watch) => response.map(|body| Held::new(body, watch).boxed_unsync()),
            }),
            Admission::Seat(seat) if !lasts => Ok(hold(seat, client, response)),
            Admission::Seat(_) | Admission::LongRunning { .. } => {
                let running = client.user.begin_long_running(self.long_running_per_user);
                let running = running.ok_or_else(Refusal::too_many_requests)?;
                Ok(response.map(|body| Held::new(body, (running, watch)).boxed_unsync()))
            }
        }
    }

    /// Appends the metrics of a cluster.
    pub(crate) async fn write_metrics(&self, cluster: &Cluster, text: &mut Text) -> Result<(), Refusal> {
        let cluster_flow = self.cluster(cluster);
        let config = cluster_flow.refresh(cluster).await?;
        metrics::write(&config, &self.seats.report(&cluster_flow, &config), text);
        metrics::write_sizes(&cluster_flow.stats, text);
        Ok(())
    }

    /// Appends the metrics of all clusters together.
    pub(crate) fn write_server_metrics(&self, text: &mut Text) {
        self.seats.write_metrics(text);
    }

    /// The levels, queues or requests of a cluster as a table.
    pub(crate) async fn dump(
        &self,
        cluster: &Cluster,
        dump: Dump,
        query: &str,
        now: Timestamp,
    ) -> Result<String, Refusal> {
        let cluster_flow = self.cluster(cluster);
        let config = cluster_flow.refresh(cluster).await?;
        Ok(match dump {
            Dump::Requests => dump::requests(self.seats.requests(&cluster_flow), query, now),
            dump => dump.text(&config, &self.seats.report(&cluster_flow, &config)),
        })
    }

    /// Drops the users, the configuration and the metrics of a cluster that was deleted. Its requests end as usual.
    pub(crate) fn forget_cluster(&self, id: &str) {
        self.users.forget_cluster(id);
        self.clusters.forget(id);
    }

    fn cluster(&self, cluster: &Cluster) -> Arc<ClusterFlow> {
        self.clusters.get(cluster.id(), || ClusterFlow::new(cluster.id()))
    }
}

/// Keeps a seat until a response has been sent.
fn hold(seat: Seat, client: FlowClient, response: Response<ResponseBody>) -> Response<ResponseBody> {
    match client.unread {
        Some(unread) => {
            unread.hold_seat(seat);
            response
        }
        None => response.map(|body| Held::new(body, seat).boxed_unsync()),
    }
}

impl From<Rejection> for Refusal {
    fn from(_: Rejection) -> Self {
        Self::too_many_requests()
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
