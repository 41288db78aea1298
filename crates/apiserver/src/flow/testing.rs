//! Objects and requests for the tests of flow control.

use std::sync::Arc;

use coracle_registry::Identity;
use serde_json::{Value, json};

use super::configuration::ClusterFlow;
use super::requests::RequestSummary;
use super::seats::{Assignment, Classified, Seat, Seats, Waiting};
use super::series::Rejection;
use super::shuffle_sharding::flow_hash;
use super::work::Work;
use crate::identity::Caller;
use crate::request_info::RequestInfo;

/// A limited level that lends nothing and borrows nothing; with queues, or without.
pub(super) fn level(name: &str, shares: u64, queuing: Option<(u64, u64, u64)>) -> Value {
    let response = match queuing {
        None => json!({"type": "Reject"}),
        Some((queues, hand_size, limit)) => {
            let queuing = json!({"queues": queues, "handSize": hand_size, "queueLengthLimit": limit});
            json!({"type": "Queue", "queuing": queuing})
        }
    };
    json!({"metadata": {"name": name, "uid": format!("{name}-uid")}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": shares,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": response,
    }}})
}

/// A schema that matches one user, whose requests are one flow.
pub(super) fn schema(name: &str, precedence: u64, level: &str, user: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("{name}-uid")}, "spec": {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    }})
}

pub(super) fn caller(name: &str, all_clusters: bool) -> Caller {
    let groups = vec!["system:authenticated".to_owned()];
    let identity = Identity { name: name.to_owned(), groups, ..Identity::default() };
    Caller { identity: Arc::new(identity), all_clusters }
}

/// Requests of one cluster.
pub(super) struct Requests {
    pub(super) seats: Arc<Seats>,
    pub(super) cluster: Arc<ClusterFlow>,
}

impl Requests {
    pub(super) fn new(seats: &Arc<Seats>, id: &str, objects: &[Value]) -> Self {
        let cluster = Arc::new(ClusterFlow::new(id));
        cluster.replace(objects);
        Self { seats: seats.clone(), cluster }
    }

    /// A request of a user.
    pub(super) fn send(&self, user: &str) -> Result<Assignment, Rejection> {
        self.send_work(user, Work::OneSeat)
    }

    /// A request of a user with some work.
    pub(super) fn send_work(&self, user: &str, work: Work) -> Result<Assignment, Rejection> {
        let config = self.cluster.current();
        let caller = caller(user, false);
        let info = Arc::new(RequestInfo::new(&http::Method::GET, &"/version".parse().unwrap()));
        let flow = config.classify(&caller, &info.attributes()).cloned().unwrap();
        let hash = flow_hash(&flow.schema.name, user);
        let (cluster, request) = (self.cluster.clone(), RequestSummary::new(&caller.identity, &info));
        self.seats.take(Classified { cluster, config, flow, request, hash, work, is_watch: false })
    }

    pub(super) fn seated(&self, user: &str) -> Seat {
        match self.send(user) {
            Ok(Assignment::Seat(seat)) => seat,
            Ok(Assignment::Queue(_)) => panic!("{user} has to wait"),
            Err(reason) => panic!("{user} is rejected: {reason:?}"),
        }
    }

    pub(super) fn waiting(&self, user: &str) -> Waiting {
        match self.send(user) {
            Ok(Assignment::Queue(waiting)) => waiting,
            Ok(Assignment::Seat(_)) => panic!("{user} does not wait"),
            Err(reason) => panic!("{user} is rejected: {reason:?}"),
        }
    }

    pub(super) fn rejected(&self, user: &str) -> Rejection {
        self.send(user).err().unwrap()
    }
}
