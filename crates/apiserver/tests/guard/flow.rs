//! API Priority and Fairness over real connections: floods, levels, clusters, headers and metrics.

use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::{CredentialScope, FlowLimits, Identity, PeerIdentity};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::support::{Client, MERGE};
use crate::world::{MAPS, World, flow_metric, header, response};

/// With these, global-default has one seat of its own and borrows six at most: one of node-high, one of workload-high
/// and four of workload-low.
const LIMITS: FlowLimits =
    FlowLimits { requests: 8, waiting: 100, wait: Duration::from_secs(3600), long_running_per_user: 2 };
const GLOBAL_DEFAULT_SEATS: usize = 7;

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const GLOBAL_DEFAULT: (&str, &str) = ("priority_level", "global-default");

/// Starts creations that hold their seats until released. Returns when the given number executes and the rest is
/// queued.
async fn flood(world: &World, user: &str, executing: usize, waiting: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for number in 0..executing + waiting {
        let name = user.replace(':', "-");
        streams.push(world.create(user, MAPS, &format!("held-{name}-{number}"), true).await);
    }
    world.hold.wait_for(u32::try_from(executing).unwrap()).await;
    world.wait_for_metric("current_inqueue_requests", &[], waiting as f64).await;
    streams
}

async fn check_created(world: &World, streams: Vec<TcpStream>) {
    world.hold.release(streams.len());
    for mut stream in streams {
        let text = response(&mut stream).await;
        assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    }
}

/// Creates a level and a schema that sends the requests of the user of the same name to it.
async fn add_level(world: &World, name: &str, response: Value) {
    let limited =
        json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": response});
    let level = json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}});
    assert_eq!(world.admin.post(LEVELS, level).await.0, 201);
    let schema = json!({"metadata": {"name": name}, "spec": {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 1000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": name}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
        }],
    }});
    assert_eq!(world.admin.post(SCHEMAS, schema).await.0, 201);
}

async fn patch_level(world: &World, name: &str, limited: Value) {
    let patch = json!({"spec": {"limited": limited}});
    let (code, level) = world.admin.send(Method::PATCH, &format!("{LEVELS}/{name}"), MERGE, patch).await;
    assert_eq!(code, 200, "{level}");
}

/// The uids of a schema and its level.
async fn uids(world: &World, schema: &str) -> (String, String) {
    let get =
        async |path: String| world.admin.send(Method::GET, &path, "application/json", Value::Null).await.1;
    let schema = get(format!("{SCHEMAS}/{schema}")).await;
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap();
    let level = get(format!("{LEVELS}/{level}")).await;
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    (uid(&schema), uid(&level))
}

/// Checks that a response names a schema and its level.
async fn check_classified(world: &World, text: &str, schema: &str) {
    let (schema_uid, level_uid) = uids(world, schema).await;
    assert_eq!(header(text, "x-kubernetes-pf-flowschema-uid"), Some(&*schema_uid), "{schema}: {text}");
    assert_eq!(header(text, "x-kubernetes-pf-prioritylevel-uid"), Some(&*level_uid), "{schema}: {text}");
}

/// The response to a GET over HTTP/1.1 with these headers.
async fn get(world: &World, headers: &str, path: &str) -> String {
    let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{headers}"), "").await;
    response(&mut stream).await
}

#[tokio::test]
async fn flood_from_one_user_does_not_starve_another() {
    let world = World::new(&LIMITS).await;
    let mut streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 20).await;
    let mut other = world.send(&format!("GET {MAPS} HTTP/1.1\r\nx-user: other"), "").await;
    world.wait_for_metric("current_inqueue_requests", &[GLOBAL_DEFAULT], 21.0).await;
    // The flood has a hand of six queues, each of which may come once before the queue of the other user.
    world.hold.release(7);
    assert!(response(&mut other).await.starts_with("HTTP/1.1 200"));
    world.hold.release(20);
    for stream in &mut streams {
        assert!(response(stream).await.starts_with("HTTP/1.1 201"));
    }
    world.end().await;
}

#[tokio::test]
async fn flood_does_not_delay_nodes_or_leader_election() {
    let world = World::new(&LIMITS).await;
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 3).await;
    // Levels get their own seats although global-default has borrowed them.
    let accounts = "x-user: system:serviceaccount:default:a\r\nx-group: system:serviceaccounts";
    let node = "x-user: system:node:n\r\nx-group: system:nodes";
    let manager = "x-user: system:kube-controller-manager";
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/missing";
    for _ in 0..10 {
        for (headers, path, code, schema) in [
            (node, MAPS, 200, "system-nodes"),
            (node, "/api/v1/nodes/n", 404, "system-node-high"),
            (manager, lease, 404, "system-leader-election"),
            (accounts, MAPS, 200, "service-accounts"),
        ] {
            let text = get(&world, headers, path).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {code}")), "{headers} {path} {text}");
            check_classified(&world, &text, schema).await;
        }
    }
    check_created(&world, streams).await;
    world.end().await;
}

#[tokio::test]
async fn changed_level_changes_seats_without_restart() {
    let world = World::new(&LIMITS).await;
    patch_level(&world, "global-default", json!({"borrowingLimitPercent": 0})).await;
    assert!((world.flow_metric("nominal_limit_seats", &[GLOBAL_DEFAULT]).await - 1.0).abs() < 0.1);
    let streams = flood(&world, "flood", 1, 5).await;
    // Four seats: eight by 215 of 440 shares.
    patch_level(&world, "global-default", json!({"nominalConcurrencyShares": 215})).await;
    world.hold.wait_for(3).await;
    for (name, expected) in [
        ("nominal_limit_seats", 4.0),
        ("lower_limit_seats", 2.0),
        ("upper_limit_seats", 4.0),
        ("current_limit_seats", 4.0),
    ] {
        world.wait_for_metric(name, &[GLOBAL_DEFAULT], expected).await;
    }
    world.wait_for_metric("current_executing_seats", &[GLOBAL_DEFAULT], 4.0).await;
    world.wait_for_metric("current_inqueue_seats", &[GLOBAL_DEFAULT], 2.0).await;
    patch_level(&world, "global-default", json!({"nominalConcurrencyShares": 20})).await;
    world.wait_for_metric("nominal_limit_seats", &[GLOBAL_DEFAULT], 1.0).await;
    check_created(&world, streams).await;
    world.end().await;
}

#[tokio::test]
async fn full_queue_and_level_without_queues_answer_429() {
    let world = World::new(&LIMITS).await;
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 2});
    add_level(&world, "queueing", json!({"type": "Queue", "queuing": queuing})).await;
    add_level(&world, "rejecting", json!({"type": "Reject"})).await;
    for (user, waiting, reason) in [("queueing", 2, "queue-full"), ("rejecting", 0, "concurrency-limit")] {
        let streams = flood(&world, user, 1, waiting).await;
        let text = world.list(user).await;
        assert!(
            text.starts_with("HTTP/1.1 429")
                && text.ends_with("Too many requests, please try again later.\n")
        );
        assert_eq!(header(&text, "retry-after"), Some("1"));
        check_classified(&world, &text, user).await;
        let labels = [("flow_schema", user), ("priority_level", user), ("reason", reason)];
        world.wait_for_metric("rejected_requests_total", &labels, 1.0).await;
        assert!(world.list("other").await.starts_with("HTTP/1.1 200"));
        check_created(&world, streams).await;
    }
    let page = world.metrics().await;
    let terminated =
        page.lines().find(|line| line.starts_with("apiserver_request_terminations_total{")).unwrap();
    assert!(terminated.contains("code=\"429\"") && terminated.ends_with(" 2"), "{terminated}");
    world.end().await;
}

#[tokio::test]
async fn exempt_level_is_for_the_operator_and_not_for_masters() {
    let world = World::new(&LIMITS).await;
    let masters = "x-user: root\r\nx-group: system:masters";
    check_classified(&world, &get(&world, masters, MAPS).await, "global-default").await;
    // A schema that sends all requests to the level changes nothing.
    let mut rules = json!([{"subjects": [{"kind": "User", "user": {"name": "*"}}]}]);
    rules[0]["resourceRules"] = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]);
    let spec =
        json!({"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 2, "rules": rules});
    assert_eq!(world.admin.post(SCHEMAS, json!({"metadata": {"name": "mine"}, "spec": spec})).await.0, 201);
    check_classified(&world, &get(&world, masters, MAPS).await, "global-default").await;
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 1).await;
    let mut request = Request::builder().uri(MAPS).body(Full::<bytes::Bytes>::default()).unwrap();
    request.extensions_mut().insert(PeerIdentity(Some(world.admin.identity.clone())));
    request.extensions_mut().insert(CredentialScope::AllClusters);
    let response = world.admin.server.clone().oneshot(request).await.unwrap();
    let (schema_uid, level_uid) = uids(&world, "exempt").await;
    assert_eq!(response.headers()["x-kubernetes-pf-flowschema-uid"], *schema_uid);
    assert_eq!(response.headers()["x-kubernetes-pf-prioritylevel-uid"], *level_uid);
    drop(response);
    check_created(&world, streams).await;
    world.end().await;
}

#[tokio::test]
async fn impersonation_does_not_change_the_flow() {
    let world = World::new(&LIMITS).await;
    let masters = "x-user: root\r\nx-group: system:masters";
    let node = "impersonate-user: system:node:n\r\nimpersonate-group: system:nodes";
    let text = get(&world, &format!("{masters}\r\n{node}"), "/api/v1/nodes/n").await;
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
    check_classified(&world, &text, "global-default").await;
    world.end().await;
}

#[tokio::test]
async fn requests_without_permission_are_rejected_without_a_seat() {
    let world = World::new(&LIMITS).await;
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 1).await;
    let text = world.get("flood", "/api/v1/secrets").await;
    assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    check_classified(&world, &text, "global-default").await;
    check_created(&world, streams).await;
    world.end().await;
}

/// A client of another cluster of the server, who may do everything there and is not the operator.
async fn tenant(world: &World, id: &str) -> Client {
    let server = world.admin.server.clone();
    let (code, cluster) = world.admin.post("/admin/clusters", json!({"id": id})).await;
    assert_eq!(code, 201, "{cluster}");
    let path = format!("/clusters/{id}/api/v1/namespaces");
    let (code, namespace) = world.admin.post(&path, json!({"metadata": {"name": "default"}})).await;
    assert!(matches!(code, 201 | 409), "{namespace}");
    let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
    let identity = Arc::new(Identity { name: "tenant".into(), groups, ..Identity::default() });
    let scope = CredentialScope::Cluster(Arc::new(server.cluster_reference(id).unwrap()));
    Client { server, identity, scope }
}

#[tokio::test]
async fn flood_in_one_cluster_leaves_seats_for_another() {
    let world = World::new(&LIMITS).await;
    let tenant = tenant(&world, "other").await;
    let path = format!("/clusters/other{MAPS}");
    let create = |number: usize| tenant.post(&path, json!({"metadata": {"name": format!("held{number}")}}));
    let mut creates = Box::pin(futures_util::future::join_all((0..GLOBAL_DEFAULT_SEATS + 3).map(create)));
    let workload_low = [("priority_level", "workload-low")];
    // They began while the cluster was alone.
    let seats = GLOBAL_DEFAULT_SEATS as f64;
    let served = async {
        world.hold.wait_for(u32::try_from(GLOBAL_DEFAULT_SEATS).unwrap()).await;
        for _ in 0..10 {
            assert!(world.list("alice").await.starts_with("HTTP/1.1 200"));
        }
        // Two of four seats, by 100 of 245 shares, while both clusters have requests.
        world.wait_for_metric("nominal_limit_seats", &workload_low, 2.0).await;
        // Metrics cover one cluster.
        assert!(world.flow_metric("current_inqueue_requests", &[]).await.abs() < 0.1);
        let (code, page) = world.admin.send(Method::GET, "/clusters/other/metrics", "*/*", Value::Null).await;
        let page = page.as_str().unwrap();
        assert_eq!(code, 200);
        assert!(
            (flow_metric(page, "current_executing_requests", &[GLOBAL_DEFAULT]) - seats).abs() < 0.1,
            "{page}"
        );
        assert!(!page.contains("process_") && !page.contains("apiserver_request_total"), "{page}");
        world.hold.release(GLOBAL_DEFAULT_SEATS + 3);
    };
    tokio::select! {
        _ = &mut creates => panic!("the creates are held"),
        () = served => {}
    }
    for (code, object) in creates.await {
        assert_eq!(code, 201, "{object}");
    }
    world.wait_for_metric("nominal_limit_seats", &workload_low, 4.0).await;
    world.end().await;
}

#[tokio::test]
async fn client_that_hangs_up_gives_its_place_back() {
    let world = World::new(&LIMITS).await;
    let mut held = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 3).await;
    // Waiting requests are dropped first, so that they do not get the seats.
    held.drain(GLOBAL_DEFAULT_SEATS..);
    world.wait_for_metric("rejected_requests_total", &[("reason", "cancelled")], 3.0).await;
    world.wait_for_metric("current_inqueue_requests", &[], 0.0).await;
    drop(held);
    world.wait_for_metric("current_executing_requests", &[GLOBAL_DEFAULT], 0.0).await;
    assert!(world.list("flood").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

#[tokio::test]
async fn metrics_follow_requests() {
    let world = World::new(&LIMITS).await;
    let labels = [GLOBAL_DEFAULT, ("flow_schema", "global-default")];
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 2).await;
    let seats = GLOBAL_DEFAULT_SEATS as f64;
    let page = world.metrics().await;
    let check = |page: &str, name: &str, more: &[(&str, &str)], expected: f64| {
        let found = flow_metric(page, name, &[&labels, more].concat());
        assert!((found - expected).abs() < 0.1, "{name} {more:?} is {found}, not {expected}: {page}");
    };
    check(&page, "current_executing_requests", &[], seats);
    check(&page, "current_executing_seats", &[], seats);
    check(&page, "current_inqueue_requests", &[], 2.0);
    check(&page, "current_inqueue_seats", &[], 2.0);
    check(&page, "dispatched_requests_total", &[], seats);
    check(&page, "request_wait_duration_seconds_count", &[("execute", "true")], seats);
    check(&page, "request_queue_length_after_enqueue_count", &[], seats + 2.0);
    check(&page, "work_estimated_seats_sum", &[], seats + 2.0);
    check(&page, "watch_count_samples_count", &[], seats + 2.0);
    check(&page, "watch_count_samples_sum", &[], 0.0);
    for line in [
        "apiserver_current_inqueue_requests{request_kind=\"mutating\"} 2",
        "apiserver_current_inqueue_requests{request_kind=\"readOnly\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} {page}");
    }
    check_created(&world, streams).await;
    let mut watch = world.send(&format!("GET {MAPS}?watch=true HTTP/1.1\r\nx-user: watcher"), "").await;
    watch.read_exact(&mut [0; 12]).await.unwrap();
    let page = world.metrics().await;
    check(&page, "current_executing_requests", &[], 0.0);
    check(&page, "dispatched_requests_total", &[], seats + 3.0);
    check(&page, "request_execution_seconds_count", &[("type", "regular")], seats + 2.0);
    check(&page, "request_execution_seconds_count", &[("type", "watch")], 1.0);
    // The create is an event of one watch.
    let mut created = world.create("flood", MAPS, "seen", true).await;
    world.hold.release(1);
    assert!(response(&mut created).await.starts_with("HTTP/1.1 201"));
    check(&world.metrics().await, "watch_count_samples_sum", &[], 1.0);
    drop(watch);
    world.end().await;
}

#[tokio::test]
async fn metrics_of_levels_follow_their_load() {
    let world = World::new(&LIMITS).await;
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 2).await;
    // Time has to pass, for values count as long as they last.
    let idle = async |name: &str, labels: &[(&str, &str)]| {
        let page = world.metrics().await;
        flow_metric(&page, name, labels).abs() < 0.1
    };
    for (name, labels) in [
        ("priority_level_seat_utilization_sum", &[GLOBAL_DEFAULT, ("phase", "executing")][..]),
        ("priority_level_request_utilization_sum", &[GLOBAL_DEFAULT, ("phase", "executing")]),
        ("priority_level_request_utilization_sum", &[GLOBAL_DEFAULT, ("phase", "waiting")]),
        ("demand_seats_sum", &[GLOBAL_DEFAULT]),
        ("read_vs_write_current_requests_sum", &[("phase", "executing"), ("request_kind", "mutating")]),
        ("read_vs_write_current_requests_sum", &[("phase", "waiting"), ("request_kind", "mutating")]),
    ] {
        assert!(!idle(name, labels).await, "{name} {labels:?}");
    }
    assert!(idle("demand_seats_sum", &[("priority_level", "node-high")]).await);
    let page = world.metrics().await;
    let bounds = |bound: &str| flow_metric(&page, "next_s_bounds", &[GLOBAL_DEFAULT, ("bound", bound)]);
    assert!(bounds("min") > 0.0 && bounds("min") <= bounds("max"), "{page}");
    let discounted = flow_metric(&page, "next_discounted_s_bounds", &[GLOBAL_DEFAULT, ("bound", "min")]);
    assert!(discounted < bounds("min"), "{page}");
    // Seven requests started from six queues.
    assert!(flow_metric(&page, "latest_s", &[GLOBAL_DEFAULT]) > 0.0, "{page}");
    check_created(&world, streams).await;
    world.end().await;
}

#[tokio::test]
async fn large_list_takes_more_seats() {
    let world = World::new(&FlowLimits { requests: 600, ..LIMITS }).await;
    let large = "x".repeat(120_000);
    for number in 0..4 {
        let map = json!({"metadata": {"name": format!("large{number}")}, "data": {"a": large}});
        assert_eq!(world.admin.post(MAPS, map).await.0, 201);
    }
    let estimated = async || world.flow_metric("work_estimated_seats_sum", &[GLOBAL_DEFAULT]).await;
    // The first list measures the objects.
    for (expected, resource) in [(1.0, ""), (6.0, ""), (7.0, "/large1"), (9.0, "?limit=1")] {
        let text = world.get("reader", &format!("{MAPS}{resource}")).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!((estimated().await - expected).abs() < 0.1, "{resource} {}", estimated().await);
    }
    let page = world.metrics().await;
    let size = "apiserver_resource_size_estimate_bytes{group=\"\",resource=\"configmaps\"} ";
    let size = page.lines().find_map(|line| line.strip_prefix(size)).unwrap().parse::<u64>().unwrap();
    assert!((480_000..600_000).contains(&size), "{size}");
    world.end().await;
}

#[tokio::test]
async fn dumps_show_levels_queues_and_requests() {
    let world = World::new(&LIMITS).await;
    let streams = flood(&world, "flood", GLOBAL_DEFAULT_SEATS, 2).await;
    let dump = async |name: &str| {
        let path = format!("/debug/api_priority_and_fairness/{name}");
        let (code, text) = world.admin.send(Method::GET, &path, "*/*", Value::Null).await;
        assert_eq!(code, 200);
        text.as_str().unwrap().lines().map(|line| line.replace(' ', "")).collect::<Vec<_>>()
    };
    let levels = dump("dump_priority_levels").await;
    assert!(levels[0].starts_with("PriorityLevelName,ActiveQueues,IsIdle,IsQuiescing,WaitingRequests,"));
    assert!(levels.iter().any(|row| row == "global-default,2,false,false,2,7,7,0,0,0"), "{levels:?}");
    assert!(levels.iter().any(|row| row.starts_with("node-high,0,true,false,0,0,")), "{levels:?}");
    let queues = dump("dump_queues").await;
    // Seven requests are spread over the six queues of a hand.
    assert_eq!(queues.iter().filter(|row| row.starts_with("global-default,")).count(), 6, "{queues:?}");
    let requests = dump("dump_requests").await;
    assert_eq!(requests.len(), 1 + GLOBAL_DEFAULT_SEATS + 2, "{requests:?}");
    assert!(requests[0].ends_with(",InitialSeats,FinalSeats,AdditionalLatency,StartTime"), "{requests:?}");
    let waiting: Vec<&String> =
        requests.iter().filter(|row| row.ends_with(",1,0,0s,0001-01-01T00:00:00Z")).collect();
    assert_eq!(waiting.len(), 2, "{requests:?}");
    assert!(waiting.iter().all(|row| row.starts_with("global-default,global-default,")), "{requests:?}");
    let executing = requests.iter().filter(|row| row.split(',').nth(3) == Some("-1"));
    assert_eq!(executing.count(), GLOBAL_DEFAULT_SEATS, "{requests:?}");
    let details = dump("dump_requests?includeRequestDetails=1").await;
    let last = format!(",flood,create,{MAPS},default,,v1,configmaps,");
    assert!(details[1..].iter().all(|row| row.ends_with(&last)), "{details:?}");
    assert!(
        world.get("flood", "/debug/api_priority_and_fairness/dump_queues").await.starts_with("HTTP/1.1 403")
    );
    check_created(&world, streams).await;
    world.end().await;
}

#[tokio::test]
async fn watches_have_no_seats() {
    let world = World::new(&LIMITS).await;
    let watch = format!("GET {MAPS}?watch=true HTTP/1.1\r\nx-user: watcher");
    let mut watches = Vec::new();
    for _ in 0..LIMITS.long_running_per_user {
        let mut stream = world.send(&watch, "").await;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        watches.push(stream);
    }
    let mut more = world.send(&watch, "").await;
    assert!(response(&mut more).await.starts_with("HTTP/1.1 429"));
    for _ in 0..LIMITS.requests + 1 {
        assert!(world.list("watcher").await.starts_with("HTTP/1.1 200"));
    }
    drop(watches);
    world.end().await;
}

#[tokio::test]
async fn every_response_has_the_id_of_its_request() {
    let world = World::new(&LIMITS).await;
    for (path, user) in [(MAPS, "x-user: a\r\n"), ("/livez", ""), (MAPS, ""), ("/nowhere", "x-user: a\r\n")] {
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: mine"), "").await;
        let text = response(&mut stream).await.to_lowercase();
        assert!(text.contains("\r\naudit-id: mine\r\n"), "{path} {text}");
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: not mine"), "").await;
        let text = response(&mut stream).await.to_lowercase();
        let id = text.split("\r\naudit-id: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
        assert_eq!(id.len(), 36, "{path} {text}");
    }
    world.end().await;
}
