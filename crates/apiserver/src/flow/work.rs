//! The work of a request, estimated before it starts (`pkg/util/flowcontrol/request` of k8s.io/apiserver).
//!
//! A list, and the beginning of a watch that sends objects, takes a seat for each [`BYTES_PER_SEAT`] it is expected to
//! return. A write takes one seat while it is executed, and then seats by the number of watches that receive its event.
//! Other requests take one seat.

use std::time::Duration;

use super::object_stats::ObjectStats;
use super::priority_level::LimitResponse;
use super::watch_counts::WatchCounts;
use crate::authorization::{ResourceTarget, Target};
use crate::request_info::RequestInfo;

/// Stored bytes that one seat returns (`bytesPerSeat`).
const BYTES_PER_SEAT: u64 = 100_000;

/// Bytes of one list that are in memory at once: kube-apiserver's limit for lists that are streamed from its cache
/// (`cacheWithStreamingMaxMemoryUsage`). All lists are encoded piece by piece here.
const STREAMED_BYTES: u64 = 1_000_000;

/// Seats of a list, and seats after a write (`MaximumListSeatsLimit`, `MaximumMutatingSeatsLimit`).
const MAX_LIST_SEATS: usize = 100;
const MAX_FINAL_SEATS: usize = 10;

/// Watches whose events take one seat for [`EVENT_DURATION`]. Fewer watches take none.
const WATCHES_PER_SEAT: usize = 10;
const EVENT_DURATION: Duration = Duration::from_millis(5);

/// The part of the nominal seats of a level that one request takes at most, in percent
/// (`priorityLevelMaxSeatsPercent`).
const MAX_SEATS_PERCENT: usize = 15;

/// The work of a request, before the limits of its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    OneSeat,
    /// Returns objects of `bytes` in total.
    List {
        bytes: u64,
    },
    /// Changes an object that `watches` watches select.
    Write {
        watches: usize,
    },
}

/// The seats of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkEstimate {
    /// Seats while it is executed.
    pub(super) initial_seats: usize,
    /// Seats after that, while its event is sent to watches.
    pub(super) final_seats: usize,
    /// How long it takes the final seats.
    pub(super) additional_latency: Duration,
}

impl Work {
    pub(super) fn of(info: &RequestInfo, cluster: &str, stats: &ObjectStats, watches: &WatchCounts) -> Self {
        let attributes = info.attributes();
        let Target::Resource(target) = &attributes.target else { return Self::OneSeat };
        match attributes.verb {
            "list" => Self::of_list(info, target, stats),
            "watch" if sends_objects(info) => Self::of_list(info, target, stats),
            // Creating a token changes no object.
            "create" if (target.resource, target.subresource) == ("serviceaccounts", "token") => {
                Self::OneSeat
            }
            "create" | "update" | "patch" | "delete" => {
                Self::Write { watches: watches.interested(cluster, target) }
            }
            _ => Self::OneSeat,
        }
    }

    /// A resource that was never listed counts as small, as one that kube-apiserver has not counted yet.
    fn of_list(info: &RequestInfo, target: &ResourceTarget<'_>, stats: &ObjectStats) -> Self {
        let Some(stored) = stats.get(target.group, target.resource) else { return Self::OneSeat };
        let query = info.query();
        let limit = match query.number("limit") {
            // The whole state is returned then, whatever the limit is.
            _ if query.text("resourceVersion") == "0" && query.text("continue").is_empty() => None,
            Ok(Some(limit)) => u64::try_from(limit).ok().filter(|limit| *limit > 0),
            Ok(None) | Err(_) => None,
        };
        let objects = match limit {
            _ if !target.name.is_empty() => 1,
            Some(limit) => stored.objects.min(limit),
            None => stored.objects,
        };
        Self::List { bytes: objects.saturating_mul(stored.average_bytes) }
    }

    /// The seats of the request at a level whose requests may take at most `level_seats`.
    pub(super) fn estimate(self, level_seats: Option<usize>) -> WorkEstimate {
        let at_most = |limit: usize| level_seats.map_or(limit, |seats| seats.min(limit)).max(1);
        match self {
            Self::OneSeat => WorkEstimate::ONE_SEAT,
            Self::List { bytes } => {
                let seats = bytes.min(STREAMED_BYTES).div_ceil(BYTES_PER_SEAT);
                let seats = usize::try_from(seats).unwrap_or(MAX_LIST_SEATS).max(1);
                WorkEstimate { initial_seats: seats.min(at_most(MAX_LIST_SEATS)), ..WorkEstimate::ONE_SEAT }
            }
            Self::Write { watches } if watches < WATCHES_PER_SEAT => WorkEstimate::ONE_SEAT,
            Self::Write { watches } => {
                let wanted = watches.div_ceil(WATCHES_PER_SEAT);
                let final_seats = wanted.min(at_most(MAX_FINAL_SEATS));
                // The same work on fewer seats takes longer.
                let additional_latency = EVENT_DURATION.mul_f64(wanted as f64 / final_seats as f64);
                WorkEstimate { initial_seats: 1, final_seats, additional_latency }
            }
        }
    }
}

/// Returns true if a watch begins with the objects that exist.
fn sends_objects(info: &RequestInfo) -> bool {
    let query = info.query();
    query.flag("sendInitialEvents") || matches!(query.text("resourceVersion"), "" | "0")
}

impl WorkEstimate {
    pub(super) const ONE_SEAT: Self =
        Self { initial_seats: 1, final_seats: 0, additional_latency: Duration::ZERO };

    /// The seats that it takes from its start to the end of its additional latency.
    pub(super) fn seats(&self) -> usize {
        self.initial_seats.max(self.final_seats)
    }
}

/// Seats that one request of a level with these nominal seats may take: few enough that its flow does not block the
/// level. None for the level without limit.
pub(super) fn max_seats(response: LimitResponse, nominal: usize) -> Option<usize> {
    match response {
        LimitResponse::Exempt => None,
        LimitResponse::Reject => Some(nominal.max(1)),
        LimitResponse::Queue(queuing) => {
            let part = nominal.saturating_mul(MAX_SEATS_PERCENT).div_ceil(100);
            Some(part.min(nominal / queuing.hand_size.max(1)).max(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::object_stats::Found;
    use super::super::priority_level::Queuing;
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn list_is_as_wide_as_its_objects_are_large() {
        let (stats, watches) = (ObjectStats::default(), WatchCounts::default());
        for (resource, objects) in [("pods", 450), ("nodes", 20_000)] {
            let found = Found { objects, seen: objects, bytes: objects * 1000, is_all: true };
            stats.note_list("", resource, found);
        }
        for (uri, seats) in [
            ("/api/v1/pods", 5),
            ("/api/v1/namespaces/a/pods", 5),
            ("/api/v1/pods?limit=250", 3),
            ("/api/v1/pods?limit=250&resourceVersion=0", 5),
            ("/api/v1/pods?fieldSelector=metadata.name%3Dp", 1),
            ("/api/v1/pods/p", 1),
            ("/api/v1/pods?watch=1", 5),
            ("/api/v1/pods?watch=1&resourceVersion=7", 1),
            ("/api/v1/pods?watch=1&resourceVersion=7&sendInitialEvents=true", 5),
            ("/api/v1/nodes", 10),
            ("/api/v1/secrets", 1),
            ("/version", 1),
        ] {
            let estimate = Work::of(&info("GET", uri), "c", &stats, &watches).estimate(None);
            assert_eq!(estimate, WorkEstimate { initial_seats: seats, ..WorkEstimate::ONE_SEAT }, "{uri}");
        }
        let list = Work::of(&info("GET", "/api/v1/nodes"), "c", &stats, &watches);
        assert_eq!(list.estimate(Some(4)).initial_seats, 4);
    }

    #[test]
    fn write_takes_seats_for_its_watches_after_it_was_executed() {
        for (watches, level_seats, final_seats, milliseconds) in
            [(9, None, 0, 0), (10, None, 1, 5), (95, None, 10, 5), (1000, None, 10, 50), (95, Some(2), 2, 25)]
        {
            let estimate = Work::Write { watches }.estimate(level_seats);
            let additional_latency = Duration::from_millis(milliseconds);
            assert_eq!(estimate, WorkEstimate { initial_seats: 1, final_seats, additional_latency });
        }
    }

    #[test]
    fn token_of_a_service_account_sends_no_event() {
        let watches = WatchCounts::default();
        let accounts = info("GET", "/api/v1/serviceaccounts?watch=1");
        let _watching = [(); 20].map(|()| watches.begin("c", &accounts));
        let work = |uri| Work::of(&info("POST", uri), "c", &ObjectStats::default(), &watches);
        assert_eq!(work("/api/v1/namespaces/a/serviceaccounts/s/token"), Work::OneSeat);
        assert_eq!(work("/api/v1/namespaces/a/serviceaccounts"), Work::Write { watches: 20 });
    }

    #[test]
    fn one_request_takes_a_part_of_its_level() {
        let queue = |hand_size| LimitResponse::Queue(Queuing { queues: 64, hand_size, length_limit: 50 });
        for (response, nominal, expected) in [
            (queue(6), 245, Some(37)),
            (queue(8), 245, Some(30)),
            (queue(6), 8, Some(1)),
            (LimitResponse::Reject, 4, Some(4)),
            (LimitResponse::Reject, 0, Some(1)),
            (LimitResponse::Exempt, 0, None),
        ] {
            assert_eq!(max_seats(response, nominal), expected, "{response:?} {nominal}");
        }
    }
}
