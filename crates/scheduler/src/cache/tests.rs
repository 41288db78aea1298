//! Cache contents after additions, updates and removals in different orders.

use serde_json::json;

use super::*;

fn node(name: &str, zone: &str) -> Arc<Node> {
    let value = json!({"metadata": {"name": name, "labels": {"zone": zone}},
        "status": {"images": [{"names": ["web:1"], "sizeBytes": 7}]}});
    Arc::new(serde_json::from_value(value).unwrap())
}

fn pod(name: &str, node: &str) -> Arc<Pod> {
    let value = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node,
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}},
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn web() -> PodSelection {
    let selector = "app=web".parse().unwrap();
    PodSelection { all_of: Box::new([(Namespaces::one("ns"), selector)]), exclude_terminating: true }
}

/// Number of anti-affinity terms against web pods in the zone of a node.
fn weight_at(cache: &Cache, node: &str) -> i64 {
    let index = cache.find(node).unwrap().index;
    let weights = cache.terms().anti_required.iter().map(|(_, weights)| weights);
    weights
        .map(|weights| cache.topology().value(weights.column, index).map_or(0, |value| weights.at(value)))
        .sum()
}

fn web_on(cache: &Cache, node: &str) -> u32 {
    let slot = cache.find(node).unwrap().index.slot();
    cache.selection_counts().by_node(&web()).unwrap().get(slot).copied().unwrap_or(0)
}

#[test]
fn indexes_follow_added_and_removed_pods() {
    let mut cache = Cache::default();
    cache.set_node(&node("n1", "a"));
    cache.set_node(&node("n2", "a"));
    cache.ensure_counts(&web());
    assert_eq!(cache.set_pod(&pod("p", "n1")), SetPodOutcome::Added);
    assert_eq!(cache.set_pod(&pod("p", "n1")), SetPodOutcome::Updated);
    assert_eq!((web_on(&cache, "n1"), web_on(&cache, "n2")), (1, 0));
    assert_eq!((weight_at(&cache, "n1"), weight_at(&cache, "n2")), (1, 1), "both are in one zone");
    assert_eq!(cache.find("n1").unwrap().requested.milli_cpu, 1000);
    assert!(cache.is_claim_used("ns", "c"));
    assert!(cache.remove_pod("p").is_some() && cache.remove_pod("p").is_none());
    assert_eq!((web_on(&cache, "n1"), cache.terms().anti_required.iter().count()), (0, 0));
    assert!(!cache.is_claim_used("ns", "c"));
    assert_eq!(cache.find("n1").unwrap().requested.milli_cpu, 0);
}

#[test]
fn assumed_pod_is_confirmed_or_forgotten() {
    let mut cache = Cache::default();
    cache.set_node(&node("n1", "a"));
    cache.assume(pod("p", "n1"));
    cache.assume(pod("q", "n1"));
    assert!(cache.is_assumed("p"));
    assert_eq!(cache.set_pod(&pod("p", "n1")), SetPodOutcome::Confirmed);
    assert!(!cache.is_assumed("p") && cache.forget("p").is_none(), "confirmed by the API server");
    assert!(cache.forget("q").is_some());
    assert_eq!(cache.find("n1").unwrap().pods.len(), 1);
    // Another scheduler bound it to a different node.
    cache.set_node(&node("n2", "b"));
    cache.assume(pod("r", "n1"));
    assert_eq!(cache.set_pod(&pod("r", "n2")), SetPodOutcome::Confirmed);
    assert_eq!(cache.find("n1").unwrap().pods.len(), 1);
    assert_eq!(cache.find("n2").unwrap().pods.len(), 1);
}

#[test]
fn pods_may_be_cached_before_their_node_and_after_its_deletion() {
    let mut cache = Cache::default();
    cache.set_pod(&pod("p", "n1"));
    assert!(cache.find("n1").is_none() && cache.order().is_empty());
    cache.set_node(&node("n1", "a"));
    assert_eq!((cache.find("n1").unwrap().pods.len(), weight_at(&cache, "n1")), (1, 1));
    cache.remove_node("n1");
    assert!(cache.find("n1").is_none() && cache.order().is_empty());
    cache.remove_pod("p");
    assert!(cache.is_empty());
    cache.set_node(&node("n3", "a"));
    assert_eq!(cache.find("n3").unwrap().index.slot(), 0, "the slot is reused");
    assert_eq!(cache.order().len(), 1);
}

#[test]
fn relabelled_node_keeps_the_terms_of_its_pods_counted() {
    let mut cache = Cache::default();
    cache.set_node(&node("n1", "a"));
    cache.set_node(&node("n2", "b"));
    cache.set_pod(&pod("p", "n1"));
    assert_eq!((weight_at(&cache, "n1"), weight_at(&cache, "n2")), (1, 0));
    cache.set_node(&node("n1", "b"));
    assert_eq!((weight_at(&cache, "n1"), weight_at(&cache, "n2")), (1, 1));
    assert_eq!(cache.image("web:1").unwrap().len(), 2);
    cache.remove_node("n2");
    assert_eq!(cache.image("web:1").unwrap().len(), 1);
    assert!(cache.image("web:2").is_none());
}

#[test]
fn terminating_pod_is_not_counted_if_excluded() {
    let mut cache = Cache::default();
    cache.set_node(&node("n1", "a"));
    cache.ensure_counts(&web());
    cache.set_pod(&pod("p", "n1"));
    let mut going = (*pod("p", "n1")).clone();
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    cache.set_pod(&Arc::new(going));
    assert_eq!((web_on(&cache, "n1"), cache.find("n1").unwrap().pods.len()), (0, 1));
}
