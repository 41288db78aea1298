//! Seats of levels and clusters, and the life of a request.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use coracle_registry::{Registry, ServerInfo};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};

use super::seats::Waiting;
use super::testing::{Requests, caller, level, schema};
use super::*;

fn polled(waiting: &mut Waiting) -> Option<Seat> {
    match pin!(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(seat) => Some(seat),
        Poll::Pending => None,
    }
}

fn seats(total: usize) -> Arc<Seats> {
    Arc::new(Seats::new(total, 100))
}

/// Two levels of four seats each, one with queues and one without; other levels have the remaining shares.
fn two_levels() -> Vec<Value> {
    vec![
        level("queue", 40, Some((8, 2, 2))),
        level("reject", 40, None),
        schema("q", 10, "queue", "q"),
        schema("q-other", 11, "queue", "other"),
        schema("r", 12, "reject", "r"),
    ]
}

/// Seats such that the levels of [`two_levels`] have four each: catch-all has five shares.
const TOTAL: usize = 8;

#[test]
fn full_level_queues_or_rejects_and_others_go_on() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let mut held: Vec<Seat> = (0..4).flat_map(|_| [requests.seated("q"), requests.seated("r")]).collect();
    assert_eq!(requests.rejected("r"), Rejection::ConcurrencyLimit);
    // Two queues of two each.
    let mut queue: Vec<Waiting> = (0..4).map(|_| requests.waiting("q")).collect();
    assert_eq!(requests.rejected("q"), Rejection::QueueFull);
    let catch_all = requests.seated("unknown");
    assert!(queue.iter_mut().all(|waiting| polled(waiting).is_none()));
    held.clear();
    held.extend(queue.iter_mut().filter_map(polled));
    assert_eq!(held.len(), 4);
    drop((held, queue, catch_all));
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn flow_that_fills_its_queues_does_not_starve_another() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let mut held: Vec<Seat> = (0..4).map(|_| requests.seated("q")).collect();
    let flood: Vec<Waiting> = (0..4).map(|_| requests.waiting("q")).collect();
    let mut other = requests.waiting("other");
    // Seats that become free go to both flows, not only to the one that waits longer.
    held.truncate(2);
    assert!(polled(&mut other).is_some());
    drop((held, flood, other));
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn request_that_goes_away_holds_nothing() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let mut held: Vec<Seat> = (0..4).map(|_| requests.seated("q")).collect();
    let (leaves, called, mut stays) = (requests.waiting("q"), requests.waiting("q"), requests.waiting("q"));
    drop(leaves);
    held.pop();
    // It has a seat, and goes before it notices.
    drop(called);
    let seat = polled(&mut stays).expect("the seat is passed on");
    let series = &requests.cluster.current().flows()[1].series.clone();
    assert_eq!((series.executing(), series.in_queue()), (4, 0));
    assert_eq!(series.rejected(Rejection::Cancelled).get(), 2);
    drop((seat, stays, held));
    assert_eq!((series.executing(), series.in_queue()), (0, 0));
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn clusters_with_requests_get_equal_parts() {
    let seats = seats(2 * TOTAL);
    let clusters = ["a", "b"].map(|id| Requests::new(&seats, id, &two_levels()));
    let mut flood: Vec<Seat> = (0..8).map(|_| clusters[0].seated("q")).collect();
    let mut waiting = clusters[0].waiting("q");
    // The newcomer starts at once, although all seats are taken.
    let newcomer: Vec<Seat> = (0..4).map(|_| clusters[1].seated("q")).collect();
    let queued = clusters[1].waiting("q");
    flood.truncate(4);
    assert!(polled(&mut waiting).is_none(), "the flood has only half of the seats now");
    drop((queued, newcomer));
    assert!(polled(&mut waiting).is_some(), "and all of them again when the other cluster is idle");
    drop((flood, waiting));
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn level_borrows_unused_seats_and_lenders_get_theirs_at_once() {
    let seats = seats(TOTAL);
    let mut objects = two_levels();
    objects[0]["spec"]["limited"]["borrowingLimitPercent"] = json!(50);
    objects[1]["spec"]["limited"]["lendablePercent"] = json!(75);
    let requests = Requests::new(&seats, "c", &objects);
    let borrowing: Vec<Seat> = (0..6).map(|_| requests.seated("q")).collect();
    let mut waiting = requests.waiting("q");
    let lender: Vec<Seat> = (0..4).map(|_| requests.seated("r")).collect();
    assert_eq!(requests.rejected("r"), Rejection::ConcurrencyLimit);
    drop(lender);
    assert!(polled(&mut waiting).is_none(), "six are the limit");
    drop(borrowing);
    assert!(polled(&mut waiting).is_some());
    drop(waiting);
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn changed_configuration_starts_waiting_requests() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let mut held: Vec<Seat> = (0..4).map(|_| requests.seated("q")).collect();
    let mut waiting: Vec<Waiting> = (0..4).map(|_| requests.waiting("q")).collect();
    let mut objects = two_levels();
    objects[1]["spec"]["limited"]["nominalConcurrencyShares"] = json!(0);
    requests.cluster.replace(&objects);
    waiting[0].reconfigure();
    held.extend(waiting.iter_mut().filter_map(polled));
    assert_eq!(held.len(), 8, "all seats but that of catch-all, rounded up");
    drop((held, waiting));
    assert_eq!(seats.load(), (0, 0));
}

#[test]
fn requests_of_a_removed_level_are_executed() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let mut held: Vec<Seat> = (0..4).map(|_| requests.seated("q")).collect();
    let mut waiting: Vec<Waiting> = (0..2).map(|_| requests.waiting("q")).collect();
    // The schema is gone, too, so later requests belong to catch-all.
    requests.cluster.replace(&[]);
    let other = requests.seated("q");
    for left in [1, 0] {
        held.clear();
        waiting.retain_mut(|queued| match polled(queued) {
            None => true,
            Some(seat) => {
                held.push(seat);
                false
            }
        });
        assert_eq!((held.len(), waiting.len()), (1, left), "the level has one seat");
    }
    drop((held, waiting, other));
    assert_eq!(seats.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn wide_request_waits_for_its_seats_and_keeps_them_after_it_was_executed() {
    let seats = seats(TOTAL);
    let mut objects = two_levels();
    objects[0] = level("queue", 4000, Some((8, 1, 2)));
    let requests = Requests::new(&seats, "c", &objects);
    // Two of eight seats: at most 15 percent.
    let write = Work::Write { watches: 40 };
    let narrow: Vec<Seat> = (0..7).map(|_| requests.seated("q")).collect();
    let Ok(Assignment::Queue(mut wide)) = requests.send_work("q", write) else { panic!("it has to wait") };
    let series = requests.cluster.current().flows()[1].series.clone();
    assert_eq!((series.in_queue(), series.in_queue_seats(), seats.seats_in_use()), (1, 2, 7));
    // One is free, but it is not the turn of this one.
    let mut next = requests.waiting("q");
    assert!(polled(&mut wide).is_none() && polled(&mut next).is_none());
    assert!(series.not_accommodated.get() > 0);
    drop(narrow);
    let (wide, next) = (polled(&mut wide).unwrap(), polled(&mut next).unwrap());
    assert_eq!((series.executing(), series.executing_seats(), seats.seats_in_use()), (2, 3, 3));
    drop((wide, next));
    assert_eq!((series.executing(), series.executing_seats(), seats.seats_in_use()), (0, 2, 2));
    seats.check(0, 0);
    // Four seats for 5 ms are two for 10 ms.
    tokio::time::sleep(Duration::from_millis(9)).await;
    assert_eq!(seats.seats_in_use(), 2);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!((series.executing_seats(), seats.seats_in_use(), seats.load()), (0, 0, (0, 0)));
    assert_eq!(series.watch_counts.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn seats_that_linger_are_freed_for_requests_that_wait() {
    let seats = seats(TOTAL);
    let requests = Requests::new(&seats, "c", &two_levels());
    let write = || match requests.send_work("q", Work::Write { watches: 100 }) {
        Ok(Assignment::Seat(seat)) => seat,
        _ => panic!("it has to execute"),
    };
    // One seat each, for 50 ms.
    drop([write(), write(), write(), write()]);
    let mut waiting = requests.waiting("q");
    assert!(polled(&mut waiting).is_none());
    let began = Instant::now();
    let seat = waiting.await;
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    drop(seat);
    assert_eq!(seats.load(), (0, 0));
}

/// Random sequences lose or add no seat, and no request waits while its level has a free one.
#[test]
fn seats_are_neither_lost_nor_added() {
    let mut rng = coracle_base::Rng::seeded(7);
    let seats = seats(2 * TOTAL);
    let clusters = ["a", "b"].map(|id| Requests::new(&seats, id, &two_levels()));
    let mut taken: Vec<Seat> = Vec::new();
    let mut queued: Vec<Waiting> = Vec::new();
    for _ in 0..20_000 {
        match rng.below(4) {
            0 | 1 => {
                let requests = &clusters[rng.below(2) as usize];
                let work = match rng.below(3) {
                    0 => Work::OneSeat,
                    1 => Work::List { bytes: 100_000 * rng.below(10) },
                    // Without a runtime it keeps no seats after it was executed.
                    _ => Work::Write { watches: rng.below(300) as usize },
                };
                match requests.send_work(["q", "other", "r", "x"][rng.below(4) as usize], work) {
                    Ok(Assignment::Seat(seat)) => taken.push(seat),
                    Ok(Assignment::Queue(waiting)) => queued.push(waiting),
                    Err(_) => {}
                }
            }
            2 if !taken.is_empty() => drop(taken.swap_remove(rng.below(taken.len() as u64) as usize)),
            3 if !queued.is_empty() => drop(queued.swap_remove(rng.below(queued.len() as u64) as usize)),
            _ => {}
        }
        let mut index = 0;
        while index < queued.len() {
            match polled(&mut queued[index]) {
                Some(seat) => {
                    drop(queued.swap_remove(index));
                    taken.push(seat);
                }
                None => index += 1,
            }
        }
        seats.check(taken.len(), queued.len());
    }
    drop((taken, queued));
    assert_eq!(seats.load(), (0, 0));
}

/// A server with the default objects.
async fn bootstrapped() -> (Registry, Cluster) {
    let registry = Registry::in_memory();
    registry.bootstrap(&ServerInfo::default()).await.unwrap();
    let cluster = registry.cluster("default").unwrap();
    (registry, cluster)
}

fn info(method: &str, uri: &str) -> Arc<RequestInfo> {
    Arc::new(RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap()))
}

#[tokio::test]
async fn default_objects_classify_requests_as_kubernetes_does() {
    let (_registry, cluster) = bootstrapped().await;
    let control = FlowControl::default();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
    let pods = "/api/v1/namespaces/default/pods";
    let node_lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
    let account = "system:serviceaccount:kube-system:a";
    let accounts = &["system:serviceaccounts", "system:authenticated"][..];
    let nodes = &["system:nodes", "system:authenticated"][..];
    for (name, groups, method, uri, expected) in [
        ("operator", &["system:masters"][..], "GET", pods, "exempt exempt"),
        (
            "masters",
            &["system:masters", "system:authenticated"],
            "GET",
            pods,
            "global-default global-default",
        ),
        ("system:node:n", nodes, "PATCH", "/api/v1/nodes/n/status", "system-node-high node-high"),
        ("system:node:n", nodes, "PUT", node_lease, "system-node-high node-high"),
        ("system:node:n", nodes, "GET", pods, "system-nodes system"),
        ("system:kube-controller-manager", &[], "PUT", leases, "system-leader-election leader-election"),
        ("system:kube-controller-manager", &[], "GET", pods, "kube-controller-manager workload-high"),
        ("system:kube-scheduler", &[], "GET", pods, "kube-scheduler workload-high"),
        (account, accounts, "GET", pods, "kube-system-service-accounts workload-high"),
        ("system:serviceaccount:a:b", accounts, "GET", pods, "service-accounts workload-low"),
        ("alice", &["system:authenticated"], "GET", pods, "global-default global-default"),
        ("alice", &[], "GET", pods, "catch-all catch-all"),
    ] {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let identity = Arc::new(Identity { name: name.to_owned(), groups, ..Identity::default() });
        let caller = Caller { identity, all_clusters: name == "operator" };
        let candidate = control.classify(&cluster, &caller, &info(method, uri)).await.ok().flatten().unwrap();
        let flow = &candidate.0.flow;
        assert_eq!(format!("{} {}", flow.schema.name, flow.level.name), expected, "{name} {method} {uri}");
    }
}

#[tokio::test]
async fn long_running_requests_other_than_watches_are_not_classified() {
    let (_registry, cluster) = bootstrapped().await;
    let control = FlowControl::default();
    for (uri, expected) in [
        ("/api/v1/namespaces/a/pods/p/log", false),
        ("/api/v1/namespaces/a/pods/p/exec", false),
        ("/api/v1/namespaces/a/pods/p/proxy/x", false),
        ("/api/v1/pods?watch=true", true),
        ("/api/v1/pods", true),
    ] {
        let candidate =
            control.classify(&cluster, &caller("a", false), &info("GET", uri)).await.ok().unwrap();
        assert_eq!(candidate.is_some(), expected, "{uri}");
    }
}

/// A response without a known end.
fn endless() -> Response<ResponseBody> {
    let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    Response::new(StreamBody::new(never).boxed_unsync())
}

/// One seat for each level.
fn one_seat() -> FlowControl {
    FlowControl::new(&FlowLimits { requests: 1, long_running_per_user: 1, ..FlowLimits::default() })
}

async fn candidate(control: &FlowControl, cluster: &Cluster, info: &Arc<RequestInfo>) -> Candidate {
    control.classify(cluster, &caller("a", false), info).await.ok().flatten().unwrap()
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_too_long_is_rejected() {
    let (_registry, cluster) = bootstrapped().await;
    let (control, info) = (one_seat(), info("GET", "/version"));
    let mut held = Vec::new();
    // One seat of the level, and one that workload-low lends: a level borrows no more than the cluster has.
    for _ in 0..2 {
        held.push(control.enter(candidate(&control, &cluster, &info).await).await.ok().unwrap());
    }
    let late = candidate(&control, &cluster, &info).await;
    let began = Instant::now();
    let refusal = control.enter(late).await.err().expect("a refusal");
    assert_eq!(began.elapsed(), FlowLimits::default().wait);
    let response = refusal.into_response(None);
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let mut text = Text::default();
    control.write_metrics(&cluster, &mut text).await.ok().unwrap();
    let text = text.into_string();
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",\
        priority_level=\"global-default\",reason=\"time-out\"} 1\n";
    assert!(text.contains(rejected), "{text}");
    drop(held);
    assert_eq!(control.seats.load(), (0, 0));
}

#[tokio::test]
async fn response_keeps_its_seat_until_it_has_gone_but_a_watch_does_not() {
    let (_registry, cluster) = bootstrapped().await;
    let control = one_seat();
    let client = |lasts| control.client(&cluster, &caller("a", false).identity, None, lasts).ok().unwrap();
    let (list, watch) = (info("GET", "/api/v1/pods"), info("GET", "/api/v1/pods?watch=1"));
    let seat = control.enter(candidate(&control, &cluster, &list).await).await.ok().unwrap();
    let response = control.leave(Admission::Seat(seat), client(false), false, endless()).ok().unwrap();
    assert_eq!(control.seats.load(), (1, 0));
    drop(response);
    assert_eq!(control.seats.load(), (0, 0));
    let begin = async || {
        let seat = control.enter(candidate(&control, &cluster, &watch).await).await.ok().unwrap();
        control.leave(Admission::Seat(seat), client(true), true, endless())
    };
    let running = begin().await.ok().unwrap();
    assert_eq!(control.seats.load(), (0, 0));
    assert!(begin().await.is_err(), "one watch of the user");
    let log = Admission::LongRunning { is_operator: false };
    assert!(control.leave(log, client(true), true, endless()).is_err(), "and no other long-running request");
    let log = Admission::LongRunning { is_operator: true };
    assert!(control.leave(log, client(true), true, endless()).is_ok());
    drop(running);
    assert!(begin().await.is_ok());
}

#[tokio::test]
async fn forgotten_cluster_is_read_again() {
    let (_registry, cluster) = bootstrapped().await;
    let control = FlowControl::default();
    let info = info("GET", "/version");
    let before = candidate(&control, &cluster, &info).await.0.config;
    assert!(Arc::ptr_eq(&before, &candidate(&control, &cluster, &info).await.0.config));
    control.forget_cluster(cluster.id());
    let after = candidate(&control, &cluster, &info).await.0.config;
    assert!(after.generation > before.generation);
}
