//! Inter-pod affinity and anti-affinity.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixture::{cluster_state, node, placed, pod, refusals, scores, zoned};
use crate::view::workload::Namespace;
use crate::view::{Node, Pod};

const AFFINITY_REASON: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY_REASON: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY_REASON: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn required(app: &str, kind: &str, terms: Value) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"affinity": {kind: {
        "requiredDuringSchedulingIgnoredDuringExecution": terms}}}})
}

fn preferred(app: &str, kind: &str, weight: i64, term: Value) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"affinity": {kind: {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}}}})
}

fn app(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

/// In the order of examination a and c come first.
fn nodes() -> [Arc<Node>; 3] {
    [zoned("a", "1"), zoned("b", "1"), zoned("c", "2")]
}

fn ask(pods: &[Arc<Pod>], pod: &Arc<Pod>) -> Vec<String> {
    let mut state = cluster_state(&nodes(), pods);
    let answers = refusals("InterPodAffinity", &mut state, pod);
    let order = state.cache.cached_order().to_vec();
    let mut named: Vec<_> = order
        .into_iter()
        .zip(answers)
        .map(|(index, answer)| (state.cache.info(index).node.as_ref().unwrap().metadata.name.clone(), answer))
        .collect();
    named.sort();
    named.into_iter().map(|(_, answer)| answer).collect()
}

#[test]
fn pod_with_affinity_fits_near_matching_pods() {
    let db = placed("db", "a", app("db"));
    let near = |key| pod("p", required("web", "podAffinity", json!([term("db", key)])));
    assert_eq!(ask(&[Arc::clone(&db)], &near("zone")), ["", "", AFFINITY_REASON]);
    assert_eq!(
        ask(&[Arc::clone(&db)], &near("kubernetes.io/hostname")),
        ["", AFFINITY_REASON, AFFINITY_REASON]
    );
    assert_eq!(ask(&[], &near("zone")), [AFFINITY_REASON; 3]);
    // A single pod has to match all terms.
    let both = pod("p", required("web", "podAffinity", json!([term("db", "zone"), term("cache", "zone")])));
    assert_eq!(ask(&[db, placed("cache", "b", app("cache"))], &both), [AFFINITY_REASON; 3]);
    let elsewhere = placed("db", "a", json!({"metadata": {"namespace": "other", "labels": {"app": "db"}}}));
    assert_eq!(ask(&[elsewhere], &near("zone")), [AFFINITY_REASON; 3]);
}

#[test]
fn first_pod_of_a_group_fits_any_node_with_the_topology_key() {
    let own = |key| pod("p", required("web", "podAffinity", json!([term("web", key)])));
    assert_eq!(ask(&[], &own("zone")), [""; 3]);
    assert_eq!(ask(&[], &own("rack")), [AFFINITY_REASON; 3]);
    let other = placed("q", "c", app("web"));
    assert_eq!(
        ask(&[other], &own("zone")),
        [AFFINITY_REASON, AFFINITY_REASON, ""],
        "an existing pod matches"
    );
}

#[test]
fn pod_with_anti_affinity_avoids_matching_pods() {
    let db = placed("db", "a", app("db"));
    let away = |key| pod("p", required("web", "podAntiAffinity", json!([term("db", key)])));
    assert_eq!(ask(&[Arc::clone(&db)], &away("zone")), [ANTI_AFFINITY_REASON, ANTI_AFFINITY_REASON, ""]);
    assert_eq!(ask(&[Arc::clone(&db)], &away("kubernetes.io/hostname")), [ANTI_AFFINITY_REASON, "", ""]);
    assert_eq!(ask(&[db], &away("rack")), ["", "", ""], "no node has the topology key");
}

#[test]
fn anti_affinity_of_existing_pods_rejects_the_pod() {
    let shy = placed("shy", "a", required("shy", "podAntiAffinity", json!([term("web", "zone")])));
    assert_eq!(
        ask(&[Arc::clone(&shy)], &pod("p", app("web"))),
        [EXISTING_ANTI_AFFINITY_REASON, EXISTING_ANTI_AFFINITY_REASON, ""]
    );
    assert_eq!(ask(&[shy], &pod("p", app("other"))), [""; 3]);
}

#[test]
fn namespace_selector_selects_by_labels() {
    let mut state = cluster_state(
        &nodes(),
        &[placed("db", "a", json!({"metadata": {"namespace": "data", "labels": {"app": "db"}}}))],
    );
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "data", "labels": {"team": "x"}}})).unwrap();
    state.workloads.namespaces.insert("data".into(), Arc::new(namespace));
    for (selector, expected) in [
        (json!({"matchLabels": {"team": "x"}}), 2),
        (json!({"matchLabels": {"team": "y"}}), 0),
        (json!({}), 2),
    ] {
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}, "namespaceSelector": selector});
        let away = pod("p", required("web", "podAntiAffinity", json!([term])));
        let answers = refusals("InterPodAffinity", &mut state, &away);
        assert_eq!(
            answers.iter().filter(|answer| *answer == ANTI_AFFINITY_REASON).count(),
            expected,
            "{selector}"
        );
    }
}

#[test]
fn preferences_of_both_pods_add_up() {
    let by_name = |pods: &[Arc<Pod>], pod: &Arc<Pod>| {
        let mut state = cluster_state(&nodes(), pods);
        let scores = scores("InterPodAffinity", &mut state, pod)?;
        let order = state.cache.cached_order().to_vec();
        let mut named: Vec<_> = order
            .into_iter()
            .zip(scores)
            .map(|(index, score)| {
                (state.cache.info(index).node.as_ref().unwrap().metadata.name.clone(), score)
            })
            .collect();
        named.sort();
        Some(named.into_iter().map(|(_, score)| score).collect::<Vec<_>>())
    };
    let db = placed("db", "a", app("db"));
    let liking = pod("p", preferred("web", "podAffinity", 5, term("db", "zone")));
    assert_eq!(by_name(&[Arc::clone(&db)], &liking), Some(vec![100, 100, 0]));
    let disliking = pod("p", preferred("web", "podAntiAffinity", 5, term("db", "kubernetes.io/hostname")));
    assert_eq!(by_name(&[Arc::clone(&db)], &disliking), Some(vec![0, 100, 100]));
    let liked = placed("fan", "c", preferred("fan", "podAffinity", 5, term("web", "zone")));
    assert_eq!(by_name(&[liked], &pod("p", app("web"))), Some(vec![0, 0, 100]));
    let needed = placed("needy", "c", required("needy", "podAffinity", json!([term("web", "zone")])));
    assert_eq!(
        by_name(&[needed], &pod("p", app("web"))),
        Some(vec![0, 0, 100]),
        "required affinity of existing pods counts"
    );
    assert_eq!(by_name(&[db], &pod("p", app("web"))), None);
}

#[test]
fn node_without_labels_is_in_no_topology_domain() {
    let mut state =
        cluster_state(&[node("n", json!({"metadata": {"labels": null}}))], &[placed("db", "n", app("db"))]);
    let away = pod("p", required("web", "podAntiAffinity", json!([term("db", "zone")])));
    assert_eq!(refusals("InterPodAffinity", &mut state, &away), [""]);
}
