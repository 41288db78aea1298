//! Volume plugins.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster_state::ClusterState;
use crate::fixture::{cluster_state, decide, node, placed, pod, refusals};
use crate::view::Pod;
use crate::view::node::ZONE;

fn read<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn using(claims: &[&str]) -> Value {
    let volumes: Vec<_> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    json!({"spec": {"volumes": volumes}})
}

fn add_claim(state: &mut ClusterState, name: &str, more: Value) {
    let plain = json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = read(crate::fixture::merged(plain, more));
    state.storage.set_claim("ns", name, Some(claim));
}

fn bound_to(volume: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
}

fn add_volume(state: &mut ClusterState, name: &str, more: Value) {
    let plain = json!({"metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"}});
    state.storage.set_volume(name, Some(read(crate::fixture::merged(plain, more))));
}

fn on_node(name: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}}})
}

fn add_class(state: &mut ClusterState, name: &str, provisioner: &str, mode: &str, more: Value) {
    let plain = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    state.storage.classes.insert(name.into(), read(crate::fixture::merged(plain, more)));
}

/// Two nodes, one StorageClass with `WaitForFirstConsumer` and one with `Immediate`.
fn two_nodes(provisioner: &str) -> ClusterState {
    let mut state = cluster_state(&[node("n1", json!({})), node("n2", json!({}))], &[]);
    add_class(&mut state, "late", provisioner, "WaitForFirstConsumer", json!({}));
    add_class(&mut state, "early", provisioner, "Immediate", json!({}));
    state
}

#[test]
fn missing_or_unusable_claim_rejects_the_pod() {
    let mut state = two_nodes("example.com/driver");
    let claiming = pod("p", using(&["data"]));
    let reason = |state: &mut ClusterState| refusals("VolumeBinding", state, &claiming).remove(0);
    assert_eq!(reason(&mut state), "persistentvolumeclaim \"data\" not found");
    add_claim(&mut state, "data", json!({"spec": {"storageClassName": "early"}}));
    assert_eq!(reason(&mut state), "pod has unbound immediate PersistentVolumeClaims");
    add_claim(&mut state, "data", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(reason(&mut state), "persistentvolumeclaim \"data\" is being deleted");
    add_claim(&mut state, "data", json!({"status": {"phase": "Lost"}, "spec": {"volumeName": "v"}}));
    assert_eq!(
        reason(&mut state),
        "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v\""
    );
    let own = pod("p", json!({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}));
    assert_eq!(
        refusals("VolumeBinding", &mut state, &own)[0],
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v\""
    );
}

#[test]
fn bound_volume_restricts_the_pod_to_reachable_nodes() {
    let mut state = two_nodes("example.com/driver");
    add_claim(&mut state, "data", bound_to("v"));
    let claiming = pod("p", using(&["data"]));
    let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [gone, gone]);
    add_volume(&mut state, "v", on_node("n2"));
    let conflict = "node(s) didn't match PersistentVolume's node affinity";
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [conflict, ""]);
    assert_eq!(decide(&mut state, &claiming), Ok("n2".to_owned()));
}

#[test]
fn delayed_claim_gets_the_smallest_matching_volume() {
    let mut state = two_nodes("kubernetes.io/no-provisioner");
    add_claim(&mut state, "data", json!({}));
    let claiming = pod("p", using(&["data"]));
    let none = "node(s) didn't find available persistent volumes to bind";
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, none]);
    for (name, more) in [
        ("small", json!({"spec": {"capacity": {"storage": "1Mi"}}})),
        ("taken", json!({"spec": {"claimRef": {"namespace": "ns", "name": "other", "uid": "x"}}})),
        ("released", json!({"status": {"phase": "Released"}})),
        ("block", json!({"spec": {"volumeMode": "Block"}})),
        ("read-only", json!({"spec": {"accessModes": ["ReadOnlyMany"]}})),
        ("other-class", json!({"spec": {"storageClassName": "early"}})),
        ("elsewhere", on_node("n3")),
    ] {
        add_volume(&mut state, name, more);
        assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, none], "{name}");
    }
    add_volume(&mut state, "large", json!({"spec": {"capacity": {"storage": "9Gi"}}}));
    add_volume(&mut state, "fitting", on_node("n2"));
    let claims = state.storage.claims_of(&claiming).unwrap().unwrap();
    let on = |state: &ClusterState, name: &str| {
        let node = state.cache.find(name).unwrap().node.clone().unwrap();
        let volumes = state.storage.volumes_on(&claims, &node).unwrap();
        volumes.bindings[0].0.metadata.name.to_string()
    };
    assert_eq!((on(&state, "n1"), on(&state, "n2")), ("large".to_owned(), "fitting".to_owned()));
    // A volume reserved for one pod is not available to the next.
    let node = state.cache.find("n2").unwrap().node.clone().unwrap();
    let needed = state.storage.volumes_on(&claims, &node).unwrap();
    state.storage.reserve("p", "n2", needed);
    add_claim(&mut state, "more", json!({}));
    let next = pod("q", using(&["more"]));
    let claims_of_next = state.storage.claims_of(&next).unwrap().unwrap();
    let left = state.storage.volumes_on(&claims_of_next, &node).unwrap();
    assert_eq!(&*left.bindings[0].0.metadata.name, "large");
    state.storage.unreserve("p");
    assert_eq!(on(&state, "n2"), "fitting");
}

#[test]
fn volume_is_provisioned_in_allowed_topologies_with_capacity() {
    let mut state = two_nodes("example.com/driver");
    add_claim(&mut state, "data", json!({}));
    let claiming = pod("p", using(&["data"]));
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), ["", ""]);
    let only_n2 = json!({"allowedTopologies": [{"matchLabelExpressions": [
        {"key": "kubernetes.io/hostname", "values": ["n2"]}]}]});
    add_class(&mut state, "late", "example.com/driver", "WaitForFirstConsumer", only_n2);
    let none = "node(s) didn't find available persistent volumes to bind";
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, ""]);
    let driver = json!({"metadata": {"name": "example.com/driver"}, "spec": {"storageCapacity": true}});
    state.storage.csi_drivers.insert("example.com/driver".into(), read(driver));
    let no_room = "node(s) did not have enough free storage";
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, no_room]);
    let capacity =
        json!({"metadata": {"name": "c"}, "storageClassName": "late", "capacity": "5Gi", "nodeTopology": {}});
    state.storage.capacities.insert(("".into(), "c".into()), read(capacity));
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, ""]);
    // Another scheduler selected a node already.
    add_claim(
        &mut state,
        "data",
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}),
    );
    assert_eq!(refusals("VolumeBinding", &mut state, &claiming), [none, none]);
}

#[test]
fn volume_zone_labels_restrict_the_node() {
    let zone = |zone: &str| json!({"metadata": {"labels": {ZONE: zone}}});
    let mut state =
        cluster_state(&[node("n1", zone("a")), node("n2", zone("b")), node("n3", json!({}))], &[]);
    add_claim(&mut state, "data", bound_to("v"));
    let claiming = pod("p", using(&["data"]));
    assert_eq!(refusals("VolumeZone", &mut state, &claiming)[0], "persistentvolume \"v\" not found");
    add_volume(&mut state, "v", zone("a"));
    let mut reason = refusals("VolumeZone", &mut state, &claiming);
    reason.sort();
    assert_eq!(reason, ["", "", "node(s) had no available volume zone"], "a node without zone labels fits");
    let both = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}});
    add_volume(&mut state, "v", both);
    assert_eq!(refusals("VolumeZone", &mut state, &claiming), ["", "", ""]);
}

#[test]
fn exclusive_claim_or_disk_in_use_rejects_the_pod() {
    let exclusive = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    let mut state = cluster_state(
        &[node("n1", json!({})), node("n2", json!({}))],
        &[placed("user", "n1", using(&["data"]))],
    );
    let claiming = pod("p", using(&["data"]));
    assert_eq!(
        refusals("VolumeRestrictions", &mut state, &claiming)[0],
        "persistentvolumeclaim \"data\" not found"
    );
    add_claim(&mut state, "data", exclusive);
    let taken = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    assert_eq!(refusals("VolumeRestrictions", &mut state, &claiming), [taken, taken]);
    state.cache.remove_pod("user");
    assert_eq!(refusals("VolumeRestrictions", &mut state, &claiming), ["", ""]);
    let disk = json!({"spec": {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]}});
    state.cache.set_pod(&placed("user", "n1", disk.clone()));
    assert_eq!(
        refusals("VolumeRestrictions", &mut state, &pod("p", disk)),
        ["node(s) had no available disk", ""]
    );
}

#[test]
fn volume_limit_of_a_driver_rejects_the_pod() {
    let mut state = two_nodes("example.com/driver");
    let csi =
        |handle: &str| json!({"spec": {"csi": {"driver": "example.com/driver", "volumeHandle": handle}}});
    for name in ["a", "b", "c"] {
        add_claim(&mut state, name, bound_to(name));
        add_volume(&mut state, name, csi(name));
    }
    let limits = json!({"metadata": {"name": "n1"}, "spec": {"drivers": [
        {"name": "example.com/driver", "nodeID": "n1", "allocatable": {"count": 2}}]}});
    state.storage.csi_nodes.insert("n1".into(), read(limits));
    let full = "node(s) exceed max volume count";
    let ask = |state: &mut ClusterState, claims: &[&str]| {
        refusals("NodeVolumeLimits", state, &pod("p", using(claims)))
    };
    assert_eq!(ask(&mut state, &["a", "b"]), ["", ""]);
    assert_eq!(ask(&mut state, &["a", "b", "c"]), [full, ""]);
    state.cache.set_pod(&placed("user", "n1", using(&["a", "b"])));
    assert_eq!(ask(&mut state, &["c"]), [full, ""]);
    assert_eq!(ask(&mut state, &["a"]), ["", ""], "the volume is attached already");
    state.cache.remove_pod("user");
    let attached = json!({"metadata": {"name": "x"}, "spec": {"attacher": "example.com/driver", "nodeName": "n1",
                          "source": {"persistentVolumeName": "b"}}});
    state.storage.set_attachment(None, Some(&read(attached)));
    assert_eq!(ask(&mut state, &["a", "c"]), [full, ""], "attached volumes count even if unused");
    // Unbound claims count for the driver of their StorageClass.
    add_claim(&mut state, "new", json!({}));
    add_claim(&mut state, "newer", json!({}));
    assert_eq!(ask(&mut state, &["new"]), ["", ""]);
    assert_eq!(ask(&mut state, &["new", "newer"]), [full, ""]);
    let plain: Arc<Pod> = pod("p", json!({}));
    assert_eq!(refusals("NodeVolumeLimits", &mut state, &plain), ["", ""]);
}
