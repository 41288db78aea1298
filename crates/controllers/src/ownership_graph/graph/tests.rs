//! Who is looked at after what, on small graphs.

use serde_json::{Value, json};

use super::*;

const PODS: Source = Source(0);
const SETS: Source = Source(1);
const NODES: Source = Source(2);

struct World(Graph);

impl World {
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

/// A reference to a replica set, by its name, which is its identity as well.
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
fn an_owner_that_is_there_is_no_reason_to_look() {
    let mut world = World::new();
    world.put(SETS, "set", json!({}));
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    world.put(PODS, "other", json!({}));
    assert!(world.dirty().is_empty());
    assert_eq!(world.class("set"), Class::Solid);
    assert_eq!(world.0.dependents(&uid("set"))[0].to_string(), "[v1/Pod, namespace: n, name: pod, uid: pod]");
}

#[test]
fn an_owner_nobody_has_seen_is_asked_for_once() {
    let mut world = World::new();
    world.put(PODS, "a", json!({"ownerReferences": [owner("set")]}));
    world.put(PODS, "b", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(world.dirty(), ["set"]);
    assert_eq!(world.class("set"), Class::Unknown);
    let names = world.0.names_of_unseen(&uid("set"));
    assert_eq!(names.len(), 1);
    world.0.note_absent(Arc::clone(&names[0]));
    assert_eq!(world.dirty(), ["a", "b"]);
    assert_eq!(world.class("set"), Class::Dangling);
    assert!(world.0.names_of_unseen(&uid("set")).is_empty());
    world.0.remove(&uid("a"));
    world.0.remove(&uid("b"));
    assert!(world.0.item(&uid("set")).is_none(), "nobody names it any more");
}

#[test]
fn an_owner_that_is_seen_later_is_as_good_as_one_seen_before() {
    let mut world = World::new();
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    world.put(SETS, "set", json!({}));
    assert_eq!(world.dirty(), ["set"], "it was to be asked for");
    assert_eq!(world.0.item(&uid("set")).unwrap().existence, Existence::Observed);
    assert_eq!(world.class("set"), Class::Solid);
}

#[test]
fn dependents_of_what_goes_are_looked_at_and_it_is_remembered() {
    let mut world = World::new();
    world.put(SETS, "set", json!({}));
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    world.0.remove(&uid("set"));
    assert_eq!(world.dirty(), ["pod"]);
    assert_eq!(world.class("set"), Class::Dangling);
    world.put(PODS, "late", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(world.dirty(), ["late"]);
}

#[test]
fn deletion_in_the_foreground_looks_at_dependents_and_then_at_the_owner() {
    let mut world = World::new();
    world.put(SETS, "set", json!({}));
    world.put(PODS, "held", json!({"ownerReferences": [blocking("set")]}));
    world.put(PODS, "free", json!({"ownerReferences": [owner("set")]}));
    world.put(SETS, "set", foreground());
    assert_eq!(world.dirty(), ["free", "held", "set"]);
    assert_eq!(world.class("set"), Class::Waiting);
    assert!(world.0.mark_blocking(&uid("set")));
    assert_eq!(world.dirty(), ["held"]);
    world.put(PODS, "held", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(world.dirty(), ["set"], "it does not block any more");
    assert!(!world.0.mark_blocking(&uid("set")));
    world.0.remove(&uid("free"));
    assert_eq!(world.dirty(), ["set"]);
    world.put(PODS, "new", json!({"ownerReferences": [blocking("set")]}));
    assert_eq!(world.dirty(), ["new"], "made while its owner goes");
    world.put(SETS, "set", foreground());
    assert!(world.dirty().is_empty(), "no news");
}

#[test]
fn orphans_are_left_to_the_owner() {
    let mut world = World::new();
    world.put(SETS, "set", json!({}));
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    world.put(SETS, "set", metadata);
    assert_eq!(world.dirty(), ["set"]);
    assert!(world.0.item(&uid("set")).unwrap().fate.orphans_dependents());
}

#[test]
fn references_that_cannot_be_meant_are_looked_at() {
    let mut world = World::new();
    world.put_in("other", SETS, "set", json!({}));
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    assert_eq!(world.dirty(), ["pod"]);
    assert_eq!(world.class("set"), Class::Elsewhere);
    // The other way round.
    world.put(PODS, "late", json!({"ownerReferences": [owner("second")]}));
    world.put_in("other", SETS, "second", json!({}));
    assert_eq!(world.dirty(), ["late", "second"]);
    // Another name, or another kind, for the same identity.
    let wrong = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "wrong", "uid": "third"});
    world.put(SETS, "third", json!({}));
    world.put(PODS, "x", json!({"ownerReferences": [wrong]}));
    assert_eq!(world.dirty(), ["x"]);
    let older = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "third", "uid": "third"});
    world.put(PODS, "y", json!({"ownerReferences": [older]}));
    assert!(world.dirty().is_empty(), "the same object in another version");
}

#[test]
fn what_is_in_no_namespace_may_own_everything() {
    let mut world = World::new();
    world.put_in("", NODES, "node", json!({}));
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "node", "uid": "node"});
    world.put(PODS, "pod", json!({"ownerReferences": [node.clone()]}));
    world.put_in("elsewhere", PODS, "pod2", json!({"ownerReferences": [node]}));
    assert!(world.dirty().is_empty());
    // Absent everywhere, once it is known that it is in no namespace.
    let gone = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"});
    world.put(PODS, "a", json!({"ownerReferences": [gone.clone()]}));
    world.put_in("elsewhere", PODS, "b", json!({"ownerReferences": [gone]}));
    assert_eq!(world.dirty(), ["gone"]);
    let name = Identity { namespace: "".into(), ..(*world.0.names_of_unseen(&uid("gone"))[0]).clone() };
    world.0.note_absent(Arc::new(name));
    assert_eq!(world.dirty(), ["a", "b"]);
}

#[test]
fn circles_go_together() {
    let mut world = World::new();
    world.put(SETS, "a", json!({"ownerReferences": [blocking("b")]}));
    world.put(SETS, "b", json!({"ownerReferences": [blocking("a")]}));
    world.put(SETS, "self", json!({"ownerReferences": [blocking("self")]}));
    world.dirty();
    world.put(SETS, "a", {
        let mut metadata = foreground();
        metadata["ownerReferences"] = json!([blocking("b")]);
        metadata
    });
    assert_eq!(world.dirty(), ["a", "b"]);
    assert!(world.0.has_waiting_dependent(&uid("b")));
    for name in ["a", "b", "self"] {
        world.0.remove(&uid(name));
    }
    world.dirty();
    assert!(world.0.by_uid.is_empty());
    assert_eq!(world.0.free.len(), world.0.nodes.len());
}

#[test]
fn a_list_takes_away_what_it_lacks_and_a_kind_that_is_not_served_says_nothing() {
    let mut world = World::new();
    world.put(SETS, "set", json!({}));
    world.put(PODS, "pod", json!({"ownerReferences": [owner("set")]}));
    world.0.sweep(PODS, 1);
    assert!(world.0.item(&uid("pod")).is_some());
    world.0.forget(SETS);
    assert_eq!(world.dirty(), ["set"]);
    assert_eq!(world.class("set"), Class::Unknown);
    world.0.sweep(PODS, 2);
    assert!(world.0.by_uid.is_empty(), "and with the last dependent goes the owner nobody has seen");
}

#[test]
fn objects_are_counted_by_kind_and_namespace() {
    let mut world = World::new();
    world.put(PODS, "a", json!({}));
    world.put(PODS, "b", json!({}));
    world.put(PODS, "b", json!({}));
    world.put_in("m", PODS, "c", json!({}));
    assert_eq!((world.0.count(PODS, "n"), world.0.count(PODS, "m"), world.0.count(SETS, "n")), (2, 1, 0));
    let changed = |namespace: &str, left| Changed { source: PODS, namespace: namespace.into(), left };
    assert_eq!(world.0.take_changes(), [changed("n", None), changed("m", None)]);
    world.0.remove(&uid("a"));
    assert_eq!(world.0.take_changes(), [changed("n", Some(1))]);
    world.0.remove(&uid("b"));
    world.put_in("m", PODS, "c", json!({}));
    assert_eq!(world.0.take_changes(), [changed("n", Some(0)), changed("m", None)]);
    assert_eq!(world.0.count(PODS, "n"), 0);
}

#[test]
fn a_node_is_small() {
    assert!(size_of::<Option<Node>>() <= 120, "{}", size_of::<Option<Node>>());
    assert!(size_of::<Identity>() <= 72, "{}", size_of::<Identity>());
}
