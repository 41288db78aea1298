//! Volume plugins.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{decide, node, placed, pod, refusals, world};
use crate::view::Pod;
use crate::view::node::ZONE;
use crate::world::World;

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

fn add_claim(world: &mut World, name: &str, more: Value) {
    let plain = json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = read(crate::fixture::merged(plain, more));
    world.storage.set_claim("ns", name, Some(claim));
}

fn bound_to(volume: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
}

fn add_volume(world: &mut World, name: &str, more: Value) {
    let plain = json!({"metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"}});
    world.storage.set_volume(name, Some(read(crate::fixture::merged(plain, more))));
}

fn on_node(name: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}}})
}

fn add_class(world: &mut World, name: &str, provisioner: &str, mode: &str, more: Value) {
    let plain = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    world.storage.classes.insert(name.into(), read(crate::fixture::merged(plain, more)));
}

/// Two nodes, one StorageClass with `WaitForFirstConsumer` and one with `Immediate`.
fn two_nodes(provisioner: &str) -> World {
    let mut world = world(&[node("n1", json!({})), node("n2", json!({}))], &[]);
    add_class(&mut world, "late", provisioner, "WaitForFirstConsumer", json!({}));
    add_class(&mut world, "early", provisioner, "Immediate", json!({}));
    world
}

#[test]
fn claims_must_be_there_and_usable() {
    let mut world = two_nodes("example.com/driver");
    let asking = pod("p", using(&["data"]));
    let told = |world: &mut World| refusals("VolumeBinding", world, &asking).remove(0);
    assert_eq!(told(&mut world), "persistentvolumeclaim \"data\" not found");
    add_claim(&mut world, "data", json!({"spec": {"storageClassName": "early"}}));
    assert_eq!(told(&mut world), "pod has unbound immediate PersistentVolumeClaims");
    add_claim(&mut world, "data", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(told(&mut world), "persistentvolumeclaim \"data\" is being deleted");
    add_claim(&mut world, "data", json!({"status": {"phase": "Lost"}, "spec": {"volumeName": "v"}}));
    assert_eq!(
        told(&mut world),
        "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"v\""
    );
    let own = pod("p", json!({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}));
    assert_eq!(
        refusals("VolumeBinding", &mut world, &own)[0],
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v\""
    );
}

#[test]
fn a_bound_volume_is_used_where_it_can_be_reached() {
    let mut world = two_nodes("example.com/driver");
    add_claim(&mut world, "data", bound_to("v"));
    let asking = pod("p", using(&["data"]));
    let gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [gone, gone]);
    add_volume(&mut world, "v", on_node("n2"));
    let conflict = "node(s) didn't match PersistentVolume's node affinity";
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [conflict, ""]);
    assert_eq!(decide(&mut world, &asking), Ok("n2".to_owned()));
}

#[test]
fn a_waiting_claim_gets_the_smallest_volume_that_does() {
    let mut world = two_nodes("kubernetes.io/no-provisioner");
    add_claim(&mut world, "data", json!({}));
    let asking = pod("p", using(&["data"]));
    let none = "node(s) didn't find available persistent volumes to bind";
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, none]);
    for (name, more) in [
        ("small", json!({"spec": {"capacity": {"storage": "1Mi"}}})),
        ("taken", json!({"spec": {"claimRef": {"namespace": "ns", "name": "other", "uid": "x"}}})),
        ("released", json!({"status": {"phase": "Released"}})),
        ("block", json!({"spec": {"volumeMode": "Block"}})),
        ("read-only", json!({"spec": {"accessModes": ["ReadOnlyMany"]}})),
        ("other-class", json!({"spec": {"storageClassName": "early"}})),
        ("elsewhere", on_node("n3")),
    ] {
        add_volume(&mut world, name, more);
        assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, none], "{name}");
    }
    add_volume(&mut world, "large", json!({"spec": {"capacity": {"storage": "9Gi"}}}));
    add_volume(&mut world, "fitting", on_node("n2"));
    let claims = world.storage.claims_of(&asking).unwrap().unwrap();
    let on = |world: &World, name: &str| {
        let node = world.cache.find(name).unwrap().node.clone().unwrap();
        let volumes = world.storage.volumes_on(&claims, &node).unwrap();
        volumes.bindings[0].0.metadata.name.to_string()
    };
    assert_eq!((on(&world, "n1"), on(&world, "n2")), ("large".to_owned(), "fitting".to_owned()));
    // A volume reserved for one pod is not available to the next.
    let node = world.cache.find("n2").unwrap().node.clone().unwrap();
    let needed = world.storage.volumes_on(&claims, &node).unwrap();
    world.storage.reserve("p", "n2", needed);
    add_claim(&mut world, "more", json!({}));
    let next = pod("q", using(&["more"]));
    let claims_of_next = world.storage.claims_of(&next).unwrap().unwrap();
    let left = world.storage.volumes_on(&claims_of_next, &node).unwrap();
    assert_eq!(&*left.bindings[0].0.metadata.name, "large");
    world.storage.unreserve("p");
    assert_eq!(on(&world, "n2"), "fitting");
}

#[test]
fn volumes_are_made_where_their_class_allows_and_room_is_left() {
    let mut world = two_nodes("example.com/driver");
    add_claim(&mut world, "data", json!({}));
    let asking = pod("p", using(&["data"]));
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), ["", ""]);
    let only_n2 = json!({"allowedTopologies": [{"matchLabelExpressions": [
        {"key": "kubernetes.io/hostname", "values": ["n2"]}]}]});
    add_class(&mut world, "late", "example.com/driver", "WaitForFirstConsumer", only_n2);
    let none = "node(s) didn't find available persistent volumes to bind";
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, ""]);
    let driver = json!({"metadata": {"name": "example.com/driver"}, "spec": {"storageCapacity": true}});
    world.storage.csi_drivers.insert("example.com/driver".into(), read(driver));
    let no_room = "node(s) did not have enough free storage";
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, no_room]);
    let capacity =
        json!({"metadata": {"name": "c"}, "storageClassName": "late", "capacity": "5Gi", "nodeTopology": {}});
    world.storage.capacities.insert(("".into(), "c".into()), read(capacity));
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, ""]);
    // Another scheduler selected a node already.
    add_claim(
        &mut world,
        "data",
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}),
    );
    assert_eq!(refusals("VolumeBinding", &mut world, &asking), [none, none]);
}

#[test]
fn volumes_say_in_which_zone_they_are() {
    let zone = |zone: &str| json!({"metadata": {"labels": {ZONE: zone}}});
    let mut world = world(&[node("n1", zone("a")), node("n2", zone("b")), node("n3", json!({}))], &[]);
    add_claim(&mut world, "data", bound_to("v"));
    let asking = pod("p", using(&["data"]));
    assert_eq!(refusals("VolumeZone", &mut world, &asking)[0], "persistentvolume \"v\" not found");
    add_volume(&mut world, "v", zone("a"));
    let mut told = refusals("VolumeZone", &mut world, &asking);
    told.sort();
    assert_eq!(told, ["", "", "node(s) had no available volume zone"], "a node without zones is anywhere");
    let both = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}});
    add_volume(&mut world, "v", both);
    assert_eq!(refusals("VolumeZone", &mut world, &asking), ["", "", ""]);
}

#[test]
fn what_one_pod_uses_no_other_can() {
    let exclusive = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    let mut world =
        world(&[node("n1", json!({})), node("n2", json!({}))], &[placed("user", "n1", using(&["data"]))]);
    let asking = pod("p", using(&["data"]));
    assert_eq!(
        refusals("VolumeRestrictions", &mut world, &asking)[0],
        "persistentvolumeclaim \"data\" not found"
    );
    add_claim(&mut world, "data", exclusive);
    let taken = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    assert_eq!(refusals("VolumeRestrictions", &mut world, &asking), [taken, taken]);
    world.cache.remove_pod("user");
    assert_eq!(refusals("VolumeRestrictions", &mut world, &asking), ["", ""]);
    let disk = json!({"spec": {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]}});
    world.cache.set_pod(&placed("user", "n1", disk.clone()));
    assert_eq!(
        refusals("VolumeRestrictions", &mut world, &pod("p", disk)),
        ["node(s) had no available disk", ""]
    );
}

#[test]
fn a_node_has_only_so_many_volumes_of_a_driver() {
    let mut world = two_nodes("example.com/driver");
    let csi =
        |handle: &str| json!({"spec": {"csi": {"driver": "example.com/driver", "volumeHandle": handle}}});
    for name in ["a", "b", "c"] {
        add_claim(&mut world, name, bound_to(name));
        add_volume(&mut world, name, csi(name));
    }
    let limits = json!({"metadata": {"name": "n1"}, "spec": {"drivers": [
        {"name": "example.com/driver", "nodeID": "n1", "allocatable": {"count": 2}}]}});
    world.storage.csi_nodes.insert("n1".into(), read(limits));
    let full = "node(s) exceed max volume count";
    let ask =
        |world: &mut World, claims: &[&str]| refusals("NodeVolumeLimits", world, &pod("p", using(claims)));
    assert_eq!(ask(&mut world, &["a", "b"]), ["", ""]);
    assert_eq!(ask(&mut world, &["a", "b", "c"]), [full, ""]);
    world.cache.set_pod(&placed("user", "n1", using(&["a", "b"])));
    assert_eq!(ask(&mut world, &["c"]), [full, ""]);
    assert_eq!(ask(&mut world, &["a"]), ["", ""], "it is there already");
    world.cache.remove_pod("user");
    let attached = json!({"metadata": {"name": "x"}, "spec": {"attacher": "example.com/driver", "nodeName": "n1",
                          "source": {"persistentVolumeName": "b"}}});
    world.storage.set_attachment(None, Some(&read(attached)));
    assert_eq!(ask(&mut world, &["a", "c"]), [full, ""], "what is attached counts though nobody uses it");
    // Unbound claims count for the driver of their StorageClass.
    add_claim(&mut world, "new", json!({}));
    add_claim(&mut world, "newer", json!({}));
    assert_eq!(ask(&mut world, &["new"]), ["", ""]);
    assert_eq!(ask(&mut world, &["new", "newer"]), [full, ""]);
    let plain: Arc<Pod> = pod("p", json!({}));
    assert_eq!(refusals("NodeVolumeLimits", &mut world, &plain), ["", ""]);
}
