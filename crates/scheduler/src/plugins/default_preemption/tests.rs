//! Selection of victims and candidate nodes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cycle::{Outcome, Trace, schedule};
use crate::fixture::{merged, node, placed, pod, profile, turns, wanting, world};
use crate::framework::{Nomination, PostFilter};
use crate::view::Pod;
use crate::view::workload::DisruptionBudget;
use crate::world::World;

fn running(name: &str, on: &str, cpu: &str, priority: i32, more: Value) -> Arc<Pod> {
    let spec = json!({"spec": merged(wanting(cpu), json!({"priority": priority})),
                      "status": {"startTime": "2026-01-01T00:00:00Z"}});
    placed(name, on, merged(spec, more))
}

fn important(cpu: &str) -> Arc<Pod> {
    pod("important", json!({"spec": merged(wanting(cpu), json!({"priority": 100}))}))
}

fn preempt(world: &mut World, pod: &Arc<Pod>) -> (PostFilter, String) {
    match schedule(&profile(), world, pod, &mut turns(), &mut Trace::default()) {
        Outcome::Refused(diagnosis, made_room) => (made_room, diagnosis.to_string()),
        other => panic!("{other:?}"),
    }
}

fn names(made_room: &PostFilter) -> Vec<&str> {
    made_room.victims.iter().map(|victim| &*victim.metadata.name).collect()
}

#[test]
fn as_few_as_possible_go_and_the_least_important() {
    let pods = [
        running("low", "n1", "2", 1, json!({})),
        running("mid", "n1", "1", 5, json!({})),
        running("high", "n1", "1", 200, json!({})),
    ];
    let mut world = world(&[node("n1", json!({}))], &pods);
    let (made_room, _) = preempt(&mut world, &important("2"));
    assert_eq!(names(&made_room), ["low"]);
    assert_eq!(made_room.nomination, Nomination::Node("n1".into()));
    let (made_room, _) = preempt(&mut world, &important("3"));
    assert_eq!(names(&made_room), ["mid", "low"]);
    let (made_room, told) = preempt(&mut world, &important("4"));
    assert!(made_room.victims.is_empty() && made_room.nomination == Nomination::Clear);
    assert_eq!(
        told,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Insufficient cpu."
    );
}

#[test]
fn who_has_nobody_below_makes_nobody_go() {
    let mut world = world(
        &[node("n1", json!({})), node("n2", json!({"spec": {"unschedulable": true}}))],
        &[running("equal", "n1", "4", 100, json!({}))],
    );
    let (_, told) = preempt(&mut world, &important("1"));
    assert_eq!(
        told,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are \
         available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    let never = pod(
        "p",
        json!({"spec": merged(wanting("1"), json!({"priority": 100, "preemptionPolicy": "Never"}))}),
    );
    let (made_room, told) = preempt(&mut world, &never);
    assert!(told.ends_with(" preemption: not eligible due to preemptionPolicy=Never."));
    assert_eq!(made_room.nomination, Nomination::Keep);
}

#[test]
fn the_node_with_the_least_harm_is_chosen() {
    let (n1, n2) = (node("n1", json!({})), node("n2", json!({})));
    let began = |time: &str| json!({"status": {"startTime": time}});
    let plain = || json!({});
    for (pods, expected) in [
        // Its highest victim priority is lower.
        (vec![running("a", "n1", "4", 5, plain()), running("b", "n2", "4", 1, plain())], "n2"),
        // Its sum of priorities is lower.
        (
            vec![
                running("a", "n1", "2", 5, plain()),
                running("a2", "n1", "2", 5, plain()),
                running("b", "n2", "2", 5, plain()),
                running("b2", "n2", "2", 1, plain()),
            ],
            "n2",
        ),
        // It has fewer victims.
        (
            vec![
                running("a", "n1", "2", 5, plain()),
                running("a2", "n1", "2", -5, plain()),
                running("b", "n2", "4", 5, plain()),
            ],
            "n2",
        ),
        // Its victims started later.
        (
            vec![
                running("a", "n1", "4", 5, began("2026-01-01T00:00:00Z")),
                running("b", "n2", "4", 5, began("2026-01-02T00:00:00Z")),
            ],
            "n2",
        ),
    ] {
        let mut world = world(&[Arc::clone(&n1), Arc::clone(&n2)], &pods);
        let (made_room, _) = preempt(&mut world, &important("4"));
        assert_eq!(made_room.nomination, Nomination::Node(expected.into()), "{:?}", names(&made_room));
    }
}

#[test]
fn the_protected_go_last() {
    let labelled = json!({"metadata": {"labels": {"app": "db"}}});
    let budget: DisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "b", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0}}))
    .unwrap();
    let protected = |mut world: World| {
        world.workloads.budgets.insert(("ns".into(), "b".into()), Arc::new(budget.clone()));
        world
    };
    // On one node, the pod without a budget is evicted although its priority is higher.
    let pods = [running("db", "n1", "2", 1, labelled.clone()), running("web", "n1", "2", 5, json!({}))];
    let mut one = protected(world(&[node("n1", json!({}))], &pods));
    assert_eq!(names(&preempt(&mut one, &important("2")).0), ["web"]);
    // Of two nodes, the one without a budget violation is chosen.
    let pods = [running("db", "n1", "4", 1, labelled), running("web", "n2", "4", 5, json!({}))];
    let mut two = protected(world(&[node("n1", json!({})), node("n2", json!({}))], &pods));
    assert_eq!(names(&preempt(&mut two, &important("2")).0), ["web"]);
}

#[test]
fn who_waits_for_victims_makes_no_more_of_them() {
    let going = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z"},
        "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}});
    let mut world = world(
        &[node("n1", json!({}))],
        &[running("going", "n1", "2", 1, going), running("staying", "n1", "2", 1, json!({}))],
    );
    let waiting = important("2");
    world.nominated.set(&waiting, "n1");
    let (made_room, told) = preempt(&mut world, &waiting);
    assert!(made_room.victims.is_empty());
    assert!(
        told.ends_with("preemption: not eligible due to a terminating pod on the nominated node."),
        "{told}"
    );
}

#[test]
fn what_pods_say_of_each_other_is_tried_out_too() {
    // The pod has required anti-affinity with an existing one.
    let web = running("web", "n1", "1", 1, json!({"metadata": {"labels": {"app": "web"}}}));
    let away = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let mut world = world(&[node("n1", json!({}))], &[web, running("free", "n1", "1", 1, json!({}))]);
    let shy = pod("shy", json!({"spec": merged(wanting("1"), json!({"priority": 9, "affinity": away}))}));
    assert_eq!(names(&preempt(&mut world, &shy).0), ["web"]);
    let uneven = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    world.cache.set_node(&node("n2", json!({"spec": {"unschedulable": true}})));
    let even = pod(
        "even",
        json!({"metadata": {"labels": {"app": "web"}},
        "spec": merged(wanting("1"), json!({"priority": 9, "topologySpreadConstraints": [uneven]}))}),
    );
    assert_eq!(names(&preempt(&mut world, &even).0), ["web"]);
}
