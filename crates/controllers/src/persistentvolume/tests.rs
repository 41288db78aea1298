//! Plans for claims and volumes, as tables.

use std::sync::Arc;

use serde_json::{Value, json};

use super::claim::{self, PlannedEvent};
use super::provision::{PROVISIONER, new_volume};
use super::volume::{self, Reclaim};
use super::{patches, provision};
use crate::view::{Node, PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Merges fields into an object.
fn with(mut object: Value, more: &Value) -> Value {
    match (&mut object, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                let field = fields.remove(key).unwrap_or_default();
                fields.insert(key.clone(), with(field, value));
            }
        }
        (object, more) => *object = more.clone(),
    }
    object
}

fn claim(more: Value) -> PersistentVolumeClaim {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let metadata = json!({"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"});
    let object = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}});
    serde_json::from_value(with(object, &more)).unwrap()
}

fn volume(more: Value) -> Arc<PersistentVolume> {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
    });
    let metadata = json!({"name": "v", "uid": "w", "resourceVersion": "8"});
    let object = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Available"}});
    Arc::new(serde_json::from_value(with(object, &more)).unwrap())
}

fn class(name: &str, provisioner: &str, mode: &str) -> Arc<StorageClass> {
    let object = json!({
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete",
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn classes() -> Vec<Arc<StorageClass>> {
    vec![
        class("ours", PROVISIONER, "WaitForFirstConsumer"),
        class("theirs", "example.org/disks", "Immediate"),
        class("none", "kubernetes.io/no-provisioner", "Immediate"),
        class("old", "kubernetes.io/gce-pd", "Immediate"),
    ]
}

fn describe(describe: &PlannedEvent) -> String {
    format!("{}: {}", describe.reason, describe.message)
}

fn planned(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>], pods: &[&str]) -> String {
    let waiting_pods: Vec<_> = pods.iter().map(|&pod| pod.to_owned()).collect();
    let known = claim::Observed { claim, volumes, classes: &classes(), waiting_pods: &waiting_pods };
    match claim::plan(&known) {
        claim::Plan::Bind(volume) => format!("bind {}", volume.metadata.name()),
        claim::Plan::Wait(None) => "wait".to_owned(),
        claim::Plan::Wait(Some(reason)) => format!("wait, {}", describe(&reason)),
        claim::Plan::Fail(reason) => format!("fail, {}", describe(&reason)),
        claim::Plan::Lose(reason) => format!("lose, {}", reason.reason),
        claim::Plan::Assign(class) => format!("assign {class}"),
        claim::Plan::Provision(class) => format!("provision {}", class.metadata.name()),
        claim::Plan::Await { provisioner, .. } => format!("await {provisioner}"),
        claim::Plan::Refuse(reason) => format!("refuse, {}", describe(&reason)),
    }
}

#[test]
fn unbound_claims_find_volumes_or_wait() {
    let of_class = |class: &str| json!({"spec": {"storageClassName": class}});
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    let no_class =
        "wait, FailedBinding: no persistent volumes available for this claim and no storage class is set";
    for (spec, volumes, pods, expected) in [
        (json!({}), vec![volume(json!({}))], &[][..], "bind v"),
        (json!({}), vec![], &[], no_class),
        (of_class(""), vec![], &[], no_class),
        (
            of_class("ours"),
            vec![volume(of_class("ours"))],
            &[],
            "wait, WaitForFirstConsumer: waiting for first consumer to be created before binding",
        ),
        (of_class("ours"), vec![], &["p"], "wait, WaitForPodScheduled: waiting for pod p to be scheduled"),
        (
            of_class("ours"),
            vec![],
            &["p", "q"],
            "wait, WaitForPodScheduled: waiting for pods p,q to be scheduled",
        ),
        (with(of_class("ours"), &selected), vec![], &[], "provision ours"),
        (of_class("theirs"), vec![], &[], "await example.org/disks"),
        (of_class("old"), vec![], &[], "await pd.csi.storage.gke.io"),
        (
            of_class("none"),
            vec![],
            &[],
            "refuse, ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (
            of_class("gone"),
            vec![],
            &[],
            "refuse, ProvisioningFailed: storageclass.storage.k8s.io \"gone\" not found",
        ),
    ] {
        assert_eq!(planned(&claim(spec.clone()), &volumes, pods), expected, "{spec}");
    }
}

#[test]
fn claim_without_class_gets_the_newest_default_class() {
    let default = |name: &str, created: &str| -> Arc<StorageClass> {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let metadata = json!({"name": name, "creationTimestamp": created, "annotations": annotations});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    };
    let classes = [
        default("b", "2026-01-02T00:00:00Z"),
        default("a", "2026-01-02T00:00:00Z"),
        default("old", "2026-01-01T00:00:00Z"),
    ];
    let assigned = |claim: &PersistentVolumeClaim| {
        let known = claim::Observed { claim, volumes: &[], classes: &classes, waiting_pods: &[] };
        match claim::plan(&known) {
            claim::Plan::Assign(class) => Some(class),
            _ => None,
        }
    };
    assert_eq!(assigned(&claim(json!({}))).as_deref(), Some("a"));
    assert_eq!(assigned(&claim(json!({"spec": {"storageClassName": ""}}))), None, "it wants none");
}

#[test]
fn claim_with_volume_name_uses_that_volume() {
    let named = json!({"spec": {"volumeName": "v"}});
    let completed = with(
        named.clone(),
        &json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}),
    );
    let ours = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}});
    let bound_to = |name: &str, uid: &str| {
        volume(json!({"spec": {"claimRef": {"namespace": "n", "name": name, "uid": uid}}}))
    };
    let taken = "FailedBinding: volume \"v\" already bound to a different claim.";
    for (spec, volumes, expected) in [
        (named.clone(), vec![], "wait".to_owned()),
        (named.clone(), vec![volume(json!({}))], "bind v".to_owned()),
        (
            named.clone(),
            vec![volume(json!({"spec": {"capacity": {"storage": "1Mi"}}}))],
            "wait, VolumeMismatch: Cannot bind to requested volume \"v\": requested PV is too small"
                .to_owned(),
        ),
        (named.clone(), vec![bound_to("c", "")], "bind v".to_owned()),
        (named.clone(), vec![bound_to("c", "u")], "bind v".to_owned()),
        (named.clone(), vec![bound_to("d", "")], format!("wait, {taken}")),
        (with(named, &ours), vec![bound_to("d", "x")], format!("fail, {taken}")),
        (completed.clone(), vec![bound_to("c", "u")], "bind v".to_owned()),
        (completed.clone(), vec![volume(json!({}))], "bind v".to_owned()),
        (completed.clone(), vec![bound_to("c", "other")], "lose, ClaimMisbound".to_owned()),
        (completed.clone(), vec![], "lose, ClaimLost".to_owned()),
        (with(completed, &json!({"spec": {"volumeName": ""}})), vec![], "lose, ClaimLost".to_owned()),
    ] {
        assert_eq!(planned(&claim(spec.clone()), &volumes, &[]), expected, "{spec}");
    }
}

#[test]
fn volume_phase_follows_its_claim() {
    let bound = json!({"spec": {"claimRef": {"namespace": "n", "name": "c", "uid": "u"}}});
    let provisioned = |by: &str, policy: &str| {
        let annotations = json!({"pv.kubernetes.io/provisioned-by": by});
        let more = json!({"metadata": {"annotations": annotations}, "spec": {"persistentVolumeReclaimPolicy": policy}});
        with(bound.clone(), &more)
    };
    let of_policy = |policy: &str, source: Value| {
        with(
            with(bound.clone(), &json!({"spec": {"persistentVolumeReclaimPolicy": policy}})),
            &json!({"spec": source}),
        )
    };
    let plan = |more: &Value, claim: Option<PersistentVolumeClaim>| match volume::plan(
        &volume(more.clone()),
        claim.as_ref(),
    ) {
        volume::Plan::Nothing => "nothing".to_owned(),
        volume::Plan::Phase(phase) => phase.to_owned(),
        volume::Plan::Release(Reclaim::Keep) => "release".to_owned(),
        volume::Plan::Release(Reclaim::Delete) => "release and delete".to_owned(),
        volume::Plan::Release(Reclaim::Fail(reason)) => format!("release and fail, {}", describe(&reason)),
        volume::Plan::Unbind => "unbind".to_owned(),
        volume::Plan::Mismatch(..) => "mismatch".to_owned(),
    };
    let named = |name: &str| Some(claim(json!({"spec": {"volumeName": name}})));
    let reserved = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}}});
    assert_eq!(plan(&json!({}), None), "Available");
    assert_eq!(plan(&reserved, None), "Available");
    assert_eq!(plan(&bound, named("v")), "Bound");
    assert_eq!(plan(&bound, named("")), "nothing");
    assert_eq!(plan(&with(bound.clone(), &json!({"spec": {"volumeMode": "Block"}})), named("")), "mismatch");
    assert_eq!(plan(&bound, named("other")), "unbind");
    assert_eq!(plan(&provisioned(PROVISIONER, "Delete"), named("other")), "release and delete");
    assert_eq!(plan(&provisioned(PROVISIONER, "Retain"), named("other")), "unbind");
    assert_eq!(plan(&bound, None), "release");
    for (more, expected) in [
        (provisioned(PROVISIONER, "Delete"), "release and delete"),
        (provisioned(PROVISIONER, "Retain"), "release"),
        (provisioned("example.org/disks", "Delete"), "release"),
        (of_policy("Delete", json!({"csi": {"driver": "x"}})), "release"),
        (of_policy("Delete", json!({"hostPath": {"path": "/tmp/x"}})), "release and delete"),
        (
            of_policy("Delete", json!({"hostPath": {"path": "/srv/x"}})),
            "release and fail, VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /srv/x",
        ),
        (
            of_policy("Delete", json!({"nfs": {"server": "x"}})),
            "release and fail, VolumeFailedDelete: error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
        ),
        (
            of_policy("Recycle", json!({})),
            "release and fail, VolumeFailedRecycle: No recycler plugin found for the volume!",
        ),
        (
            of_policy("Burn", json!({})),
            "release and fail, VolumeUnknownReclaimPolicy: Volume has unrecognized PersistentVolumeReclaimPolicy",
        ),
    ] {
        assert_eq!(plan(&more, None), expected, "{more}");
    }
}

#[test]
fn volume_is_provisioned_on_the_selected_node() {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host1"},
            "annotations": {"coracle.dev/local-volumes-directory": "/data/volumes/"}},
    }))
    .unwrap();
    let class = class("ours", PROVISIONER, "WaitForFirstConsumer");
    let created = new_volume(&claim(json!({})), &class, Some(&node)).unwrap();
    let spec = &created["spec"];
    assert_eq!(spec["hostPath"], json!({"path": "/data/volumes/pvc-u", "type": "DirectoryOrCreate"}));
    let on_node = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["host1"]});
    let term = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
    assert_eq!(term["matchExpressions"], json!([on_node]));
    assert_eq!((&spec["capacity"]["storage"], &spec["storageClassName"]), (&json!("1Gi"), &json!("ours")));
    let seen: PersistentVolume = serde_json::from_value(created).unwrap();
    assert_eq!(seen.metadata.name(), provision::volume_name(&claim(json!({}))));
    assert_eq!(patches::bind_volume(&seen, &claim(json!({}))), None, "it is bound already");

    let refused = |spec: Value, node: Option<&Node>| {
        let error = new_volume(&claim(json!({"spec": spec})), &class, node).unwrap_err();
        (error.event, error.is_node_specific)
    };
    let (describe, again) = refused(json!({"accessModes": ["ReadWriteMany"]}), Some(&node));
    assert!(
        describe.starts_with("Failed to provision volume with StorageClass \"ours\": ") && again,
        "{describe}"
    );
    assert!(!refused(json!({"volumeMode": "Block"}), Some(&node)).1);
    assert!(!refused(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}), Some(&node)).1);
    assert!(!refused(json!({}), None).1);
}

#[test]
fn completed_bindings_are_not_written_again() {
    let free = volume(json!({}));
    let waiting = claim(json!({}));
    let patch = patches::bind_volume(&free, &waiting).unwrap();
    assert_eq!(patch["metadata"]["annotations"], json!({"pv.kubernetes.io/bound-by-controller": "yes"}));
    assert_eq!(patch["spec"]["claimRef"]["uid"], "u");
    let reserved = volume(json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}}}));
    let patch = patches::bind_volume(&reserved, &waiting).unwrap();
    assert_eq!(patch["metadata"], json!({"resourceVersion": "8"}), "it was the user's doing");

    let patch = patches::bind_claim(&waiting, &free).unwrap();
    assert_eq!(patch["spec"]["volumeName"], "v");
    let named = claim(json!({"spec": {"volumeName": "v"}}));
    let patch = patches::bind_claim(&named, &free).unwrap();
    assert_eq!(patch["metadata"]["annotations"], json!({"pv.kubernetes.io/bind-completed": "yes"}));

    let status = patches::claim_status(&waiting, "Bound", Some(&free)).unwrap();
    let expected =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    assert_eq!(status["status"], expected);
    let bound = claim(json!({"status": expected}));
    assert_eq!(patches::claim_status(&bound, "Bound", Some(&free)), None);
    let lost = patches::claim_status(&bound, "Lost", None).unwrap();
    assert_eq!(lost["status"], json!({"phase": "Lost", "accessModes": null, "capacity": null}));
    assert_eq!(patches::claim_status(&waiting, "Pending", None), None);
}
