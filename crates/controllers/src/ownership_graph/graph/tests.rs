//! Which nodes become dirty after which change, on small graphs.

use serde_json::{Value, json};

use super::*;

const PODS: Source = Source(0);
const SETS: Source = Source(1);
const NODES: Source = Source(2);

struct TestGraph(Graph);

impl TestGraph {
    fn new() -> Self {
        Self(Graph::default())
    }

    fn put(&mut self, source: Source, name: &str, metadata: Value) {
        self.put_in("n", source, name, metadata);
    }

    fn put_in(&mut self, namespace: &str, source: Source, name: &str, metadata: Value) {
        let kind = match source {
            PODS => Type::new("v1", "Pod"),
            SETS => Type::new("apps/v1", "ReplicaSet"),
            _ => Type::new("v1", "Node"),
        };
        let mut object: Object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        object.metadata.name = name.into();
        object.metadata.namespace = namespace.into();
        object.metadata.uid = name.into();
        self.0.put(source, 1, &Arc::new(kind), &object);
    }

    fn dirty(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(uid) = self.0.next_dirty() {
            all.push(uid.to_string());
        }
        all.sort();
        all
    }

    fn class(&self, name: &str) -> Class {
        self.0.classify("n", &Identity::named("n", &serde_json::from_value(owner(name)).unwrap()))
    }
}

/// A reference to a replica set whose uid equals its name.
fn owner(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name})
}

fn blocking(name: &str) -> Value {
    let mut owner = owner(name);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

fn foreground() -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]})
}

fn uid(name: &str) -> Uid {
    Uid::new(name)
}

#[test]
fn existing_owner_marks_nothing() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "set", json!({}));
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    graph.put(PODS, "other", json!({}));
    assert!(graph.dirty().is_empty());
    assert_eq!(graph.class("set"), Class::Solid);
    assert_eq!(graph.0.dependents(&uid("set"))[0].to_string(), "[v1/Pod, namespace: n, name: pod, uid: pod]");
}

#[test]
fn unseen_owner_is_marked_once() {
    let mut graph = TestGraph::new();
    graph.put(PODS, "a", json!({"ownerReferences": [owner("set")]}));
    graph.put(PODS, "b", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(graph.dirty(), ["set"]);
    assert_eq!(graph.class("set"), Class::Unknown);
    let names = graph.0.names_of_unseen(&uid("set"));
    assert_eq!(names.len(), 1);
    graph.0.mark_absent(Arc::clone(&names[0]));
    assert_eq!(graph.dirty(), ["a", "b"]);
    assert_eq!(graph.class("set"), Class::Dangling);
    assert!(graph.0.names_of_unseen(&uid("set")).is_empty());
    graph.0.remove(&uid("a"));
    graph.0.remove(&uid("b"));
    assert!(graph.0.item(&uid("set")).is_none(), "it is not referenced any more");
}

#[test]
fn owner_observed_later_is_solid() {
    let mut graph = TestGraph::new();
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    graph.put(SETS, "set", json!({}));
    assert_eq!(graph.dirty(), ["set"], "it was queued for a lookup");
    assert_eq!(graph.0.item(&uid("set")).unwrap().existence, Existence::Observed);
    assert_eq!(graph.class("set"), Class::Solid);
}

#[test]
fn deleted_owner_marks_dependents_and_stays_known() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "set", json!({}));
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    graph.0.remove(&uid("set"));
    assert_eq!(graph.dirty(), ["pod"]);
    assert_eq!(graph.class("set"), Class::Dangling);
    graph.put(PODS, "late", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(graph.dirty(), ["late"]);
}

#[test]
fn foreground_deletion_marks_dependents_then_owner() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "set", json!({}));
    graph.put(PODS, "held", json!({"ownerReferences": [blocking("set")]}));
    graph.put(PODS, "free", json!({"ownerReferences": [owner("set")]}));
    graph.put(SETS, "set", foreground());
    assert_eq!(graph.dirty(), ["free", "held", "set"]);
    assert_eq!(graph.class("set"), Class::Waiting);
    assert!(graph.0.mark_blocking(&uid("set")));
    assert_eq!(graph.dirty(), ["held"]);
    graph.put(PODS, "held", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(graph.dirty(), ["set"], "it no longer blocks");
    assert!(!graph.0.mark_blocking(&uid("set")));
    graph.0.remove(&uid("free"));
    assert_eq!(graph.dirty(), ["set"]);
    graph.put(PODS, "new", json!({"ownerReferences": [blocking("set")]}));
    assert_eq!(graph.dirty(), ["new"], "created while its owner is terminating");
    graph.put(SETS, "set", foreground());
    assert!(graph.dirty().is_empty(), "unchanged");
}

#[test]
fn orphaning_marks_the_owner_only() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "set", json!({}));
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    graph.put(SETS, "set", metadata);
    assert_eq!(graph.dirty(), ["set"]);
    assert!(graph.0.item(&uid("set")).unwrap().deletion.orphans_dependents());
}

#[test]
fn mismatched_references_are_marked() {
    let mut graph = TestGraph::new();
    graph.put_in("other", SETS, "set", json!({}));
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(graph.dirty(), ["pod"]);
    assert_eq!(graph.class("set"), Class::OtherNamespace);
    // In reverse order.
    graph.put(PODS, "late", json!({"ownerReferences": [owner("second")]}));
    graph.put_in("other", SETS, "second", json!({}));
    assert_eq!(graph.dirty(), ["late", "second"]);
    // Another name, or another kind, for the same uid.
    let wrong = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "wrong", "uid": "third"});
    graph.put(SETS, "third", json!({}));
    graph.put(PODS, "x", json!({"ownerReferences": [wrong]}));
    assert_eq!(graph.dirty(), ["x"]);
    let older = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "third", "uid": "third"});
    graph.put(PODS, "y", json!({"ownerReferences": [older]}));
    assert!(graph.dirty().is_empty(), "the same object in another version");
}

#[test]
fn cluster_scoped_owner_may_own_namespaced_objects() {
    let mut graph = TestGraph::new();
    graph.put_in("", NODES, "node", json!({}));
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "node", "uid": "node"});
    graph.put(PODS, "pod", json!({"ownerReferences": [node.clone()]}));
    graph.put_in("elsewhere", PODS, "pod2", json!({"ownerReferences": [node]}));
    assert!(graph.dirty().is_empty());
    // Absent in all namespaces, once it is known to be cluster-scoped.
    let gone = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"});
    graph.put(PODS, "a", json!({"ownerReferences": [gone.clone()]}));
    graph.put_in("elsewhere", PODS, "b", json!({"ownerReferences": [gone]}));
    assert_eq!(graph.dirty(), ["gone"]);
    let name = Identity { namespace: "".into(), ..(*graph.0.names_of_unseen(&uid("gone"))[0]).clone() };
    graph.0.mark_absent(Arc::new(name));
    assert_eq!(graph.dirty(), ["a", "b"]);
}

#[test]
fn ownership_cycles_are_deleted() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "a", json!({"ownerReferences": [blocking("b")]}));
    graph.put(SETS, "b", json!({"ownerReferences": [blocking("a")]}));
    graph.put(SETS, "self", json!({"ownerReferences": [blocking("self")]}));
    graph.dirty();
    graph.put(SETS, "a", {
        let mut metadata = foreground();
        metadata["ownerReferences"] = json!([blocking("b")]);
        metadata
    });
    assert_eq!(graph.dirty(), ["a", "b"]);
    assert!(graph.0.has_waiting_dependent(&uid("b")));
    for name in ["a", "b", "self"] {
        graph.0.remove(&uid(name));
    }
    graph.dirty();
    assert!(graph.0.by_uid.is_empty());
    assert_eq!(graph.0.free.len(), graph.0.nodes.len());
}

#[test]
fn sweep_removes_unlisted_objects_and_forget_keeps_references() {
    let mut graph = TestGraph::new();
    graph.put(SETS, "set", json!({}));
    graph.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    graph.0.sweep(PODS, 1);
    assert!(graph.0.item(&uid("pod")).is_some());
    graph.0.forget(SETS);
    assert_eq!(graph.dirty(), ["set"]);
    assert_eq!(graph.class("set"), Class::Unknown);
    graph.0.sweep(PODS, 2);
    assert!(graph.0.by_uid.is_empty(), "an unseen owner is removed with its last dependent");
}

#[test]
fn counts_are_by_kind_and_namespace() {
    let mut graph = TestGraph::new();
    graph.put(PODS, "a", json!({}));
    graph.put(PODS, "b", json!({}));
    graph.put(PODS, "b", json!({}));
    graph.put_in("m", PODS, "c", json!({}));
    assert_eq!((graph.0.count(PODS, "n"), graph.0.count(PODS, "m"), graph.0.count(SETS, "n")), (2, 1, 0));
    let changed = |namespace: &str, left| Changed { source: PODS, namespace: namespace.into(), left };
    assert_eq!(graph.0.take_changes(), [changed("n", None), changed("m", None)]);
    graph.0.remove(&uid("a"));
    assert_eq!(graph.0.take_changes(), [changed("n", Some(1))]);
    graph.0.remove(&uid("b"));
    graph.put_in("m", PODS, "c", json!({}));
    assert_eq!(graph.0.take_changes(), [changed("n", Some(0)), changed("m", None)]);
    assert_eq!(graph.0.count(PODS, "n"), 0);
}

#[test]
fn node_size_is_bounded() {
    assert!(size_of::<Option<Node>>() <= 120, "{}", size_of::<Option<Node>>());
    assert!(size_of::<Identity>() <= 72, "{}", size_of::<Identity>());
}
