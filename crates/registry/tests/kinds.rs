//! Defaults, preparation and validation of kinds, from the decoded body to the stored object.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_base::{Clock, Rng};
use coracle_registry::lifecycle::{Change, DeleteOptions, Object, Propagation, Write};
use coracle_registry::{Cluster, Error, Identity, Kind, Registry, catalog};
use coracle_store::memory;
use serde_json::{Value, json};

fn cluster() -> Cluster {
    let store = memory::open(memory::Options::default());
    Registry::new(store, Clock::system(), Rng::seeded(1)).cluster("default").unwrap()
}

fn kind(group: &str, version: &str, plural: &str) -> &'static dyn Kind {
    catalog::find(group, version, plural).unwrap()
}

fn write(kind: &'static dyn Kind, api_version: &'static str) -> Write<'static> {
    let is_namespaced = kind.declaration().scope == coracle_registry::Scope::Namespaced;
    Write {
        kind,
        api_version,
        served_version: kind.declaration().versions.first().map_or("", |version| version),
        namespace: if is_namespaced { "default" } else { "" },
        subresource: "",
        manager: "test",
        requester: const { &Identity::server() },
        dry_run: false,
        audit: None,
        sent: None,
    }
}

/// The object in the form in which a decoded body reaches the life cycle.
fn decoded(kind: &dyn Kind, object: Value) -> Value {
    let declaration = kind.declaration();
    let version = declaration.versions.first().map_or("", |version| version);
    let object = kind.conform(version, object).unwrap().object;
    if declaration.is_converted(version) { kind.convert_in(version, object) } else { object }
}

async fn create(write: &Write<'_>, cluster: &Cluster, object: Value) -> Result<(Value, Vec<String>), Error> {
    let created = cluster.create(write, decoded(write.kind, object)).await?;
    Ok((tree(&created.object), created.warnings))
}

async fn update(write: &Write<'_>, cluster: &Cluster, object: &Value) -> Result<Value, Error> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let change = Change::Replace(decoded(write.kind, object.clone()));
    Ok(tree(&cluster.update(write, name, &change).await?.object))
}

fn tree(object: &Object) -> Value {
    serde_json::from_slice(&object.json).unwrap()
}

/// The fields of an error with their reasons.
fn causes(error: Error) -> Vec<String> {
    let Error::Invalid { errors, .. } = error else { panic!("it is not invalid: {error}") };
    let mut causes: Vec<_> =
        errors.iter().map(|error| format!("{} {}", error.field, error.kind.reason())).collect();
    causes.sort();
    causes
}

#[tokio::test]
async fn generation_of_a_csi_driver_starts_with_its_first_change() {
    let (cluster, write) =
        (cluster(), write(kind("storage.k8s.io", "v1", "csidrivers"), "storage.k8s.io/v1"));
    let object = json!({"metadata": {"name": "csi.example.com"}, "spec": {}});
    let (mut object, _) = create(&write, &cluster, object).await.unwrap();
    assert_eq!(object["metadata"].get("generation"), None);
    object["spec"]["podInfoOnMount"] = json!(true);
    assert_eq!(update(&write, &cluster, &object).await.unwrap()["metadata"]["generation"], 1);
}

#[tokio::test]
async fn generation_that_a_client_sends_is_kept_where_the_server_does_not_set_it() {
    let cluster = cluster();
    let object = |name: &str| json!({"metadata": {"name": name, "generation": 7}, "spec": {}});
    let accounts = write(kind("", "v1", "serviceaccounts"), "v1");
    let (account, _) = create(&accounts, &cluster, object("a")).await.unwrap();
    assert_eq!(account["metadata"]["generation"], 7);
    let drivers = write(kind("storage.k8s.io", "v1", "csidrivers"), "storage.k8s.io/v1");
    let (driver, _) = create(&drivers, &cluster, object("a")).await.unwrap();
    assert_eq!(driver["metadata"]["generation"], 7);
    let classes = write(kind("resource.k8s.io", "v1", "deviceclasses"), "resource.k8s.io/v1");
    let (class, _) = create(&classes, &cluster, object("a")).await.unwrap();
    assert_eq!(class["metadata"]["generation"], 1);
}

#[tokio::test]
async fn app_armor_annotation_of_a_new_pod_is_warned_of() {
    let (cluster, write) = (cluster(), write(kind("", "v1", "pods"), "v1"));
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    let pod = json!({
        "metadata": {"name": "p", "annotations": {key: "runtime/default"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let (pod, warnings) = create(&write, &cluster, pod).await.unwrap();
    let expected = format!(
        "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
    );
    assert_eq!(warnings, [expected]);
    let profile = &pod["spec"]["containers"][0]["securityContext"]["appArmorProfile"];
    assert_eq!(*profile, json!({"type": "RuntimeDefault"}));
}

#[tokio::test]
async fn taint_of_a_device_gets_the_time_of_the_write() {
    let (cluster, write) =
        (cluster(), write(kind("resource.k8s.io", "v1", "resourceslices"), "resource.k8s.io/v1"));
    let taint = json!({"key": "example.com/hot", "effect": "NoSchedule"});
    let slice = json!({"metadata": {"name": "s"}, "spec": {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [{
            "name": "a",
            "taints": [taint],
            "attributes": {"x": {"int": 1, "ints": [1]}},
            "nodeAllocatableResourceMappings": {"cpu": {}},
        }],
    }});
    let (mut slice, _) = create(&write, &cluster, slice).await.unwrap();
    let device = &mut slice["spec"]["devices"][0];
    assert!(device["taints"][0]["timeAdded"].is_string());
    assert_eq!(device["attributes"]["x"], json!({"int": 1}), "the feature gate for lists is off");
    assert_eq!(device.get("nodeAllocatableResourceMappings"), None, "the feature gate is off");
    device["taints"] = json!([{"key": "example.com/hot", "effect": "NoExecute"}]);
    let slice = update(&write, &cluster, &slice).await.unwrap();
    assert!(slice["spec"]["devices"][0]["taints"][0]["timeAdded"].is_string());
}

#[tokio::test]
async fn toleration_of_a_device_taint_compares_by_default() {
    let (cluster, write) =
        (cluster(), write(kind("resource.k8s.io", "v1", "resourceclaims"), "resource.k8s.io/v1"));
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "x", "tolerations": [{"key": "k"}]}},
        {"name": "b", "firstAvailable": [
            {"name": "c", "deviceClassName": "x", "tolerations": [{"key": "k", "operator": "Exists"}, {"key": "l"}]},
        ]},
    ]}}});
    let (claim, _) = create(&write, &cluster, claim).await.unwrap();
    let requests = &claim["spec"]["devices"]["requests"];
    assert_eq!(requests[0]["exactly"]["tolerations"][0]["operator"], "Equal");
    let tolerations = &requests[1]["firstAvailable"][0]["tolerations"];
    assert_eq!([&tolerations[0]["operator"], &tolerations[1]["operator"]], ["Exists", "Equal"]);
}

#[tokio::test]
async fn stateful_set_with_two_claims_of_one_name_is_accepted() {
    let (cluster, write) = (cluster(), write(kind("apps", "v1", "statefulsets"), "apps/v1"));
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        "volumeClaimTemplates": [claim, claim],
    }});
    create(&write, &cluster, set).await.unwrap();
}

#[tokio::test]
async fn update_that_is_invalid_and_immutable_has_all_causes() {
    let cluster = cluster();
    let nodes = write(kind("", "v1", "nodes"), "v1");
    let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": "x"}});
    let (mut node, _) = create(&nodes, &cluster, node).await.unwrap();
    node["spec"] = json!({"providerID": "y", "taints": [{"key": "a"}]});
    assert_eq!(
        causes(update(&nodes, &cluster, &node).await.unwrap_err()),
        [
            "metadata.taints[0].effect FieldValueRequired",
            "metadata.taints[0].effect FieldValueRequired",
            "spec.providerID FieldValueForbidden",
        ]
    );

    let volumes = write(kind("", "v1", "persistentvolumes"), "v1");
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"server": "s", "path": "/"},
    }});
    let (mut volume, _) = create(&volumes, &cluster, volume).await.unwrap();
    volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Keep");
    volume["spec"]["volumeMode"] = json!("Block");
    assert_eq!(
        causes(update(&volumes, &cluster, &volume).await.unwrap_err()),
        [
            "spec.persistentVolumeReclaimPolicy FieldValueNotSupported",
            "spec.persistentVolumeReclaimPolicy FieldValueNotSupported",
            "volumeMode FieldValueInvalid",
        ]
    );

    let jobs = write(kind("batch", "v1", "jobs"), "batch/v1");
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }}}});
    let (mut job, _) = create(&jobs, &cluster, job).await.unwrap();
    job["spec"]["parallelism"] = json!(-1);
    job["spec"]["completions"] = json!(2);
    assert_eq!(
        causes(update(&jobs, &cluster, &job).await.unwrap_err()),
        [
            "spec.completions FieldValueInvalid",
            "spec.parallelism FieldValueInvalid",
            "spec.parallelism FieldValueInvalid",
        ]
    );
}

#[tokio::test]
async fn autoscaler_with_an_empty_list_of_policies_is_rejected() {
    let write = write(kind("autoscaling", "v2", "horizontalpodautoscalers"), "autoscaling/v2");
    let autoscaler = |policies: Value| {
        json!({"metadata": {"name": "h"}, "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "behavior": {"scaleUp": {"policies": policies}},
        }})
    };
    let error = create(&write, &cluster(), autoscaler(json!([]))).await.unwrap_err();
    assert_eq!(causes(error), ["spec.behavior.scaleUp.policies FieldValueRequired"]);
    let (created, _) = create(&write, &cluster(), autoscaler(Value::Null)).await.unwrap();
    assert_eq!(created["spec"]["behavior"]["scaleUp"]["policies"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn event_without_its_times_is_rejected() {
    let write = write(kind("events.k8s.io", "v1", "events"), "v1");
    let event = |extra: Value| {
        let mut event = json!({
            "metadata": {"name": "e"}, "regarding": {"namespace": "default"}, "type": "Normal", "reason": "r",
            "action": "a", "reportingController": "c", "reportingInstance": "i",
        });
        event.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        event
    };
    let error = create(&write, &cluster(), event(json!({}))).await.unwrap_err();
    assert_eq!(causes(error), ["eventTime FieldValueRequired"]);
    let series = json!({"eventTime": "2026-01-02T03:04:05.000000Z", "series": {"count": 2}});
    let error = create(&write, &cluster(), event(series)).await.unwrap_err();
    assert_eq!(causes(error), ["series.lastObservedTime FieldValueRequired"]);
}

#[tokio::test]
async fn table_of_an_event_shows_the_age_of_its_event_time() {
    let write = write(kind("events.k8s.io", "v1", "events"), "v1");
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"namespace": "default"}, "type": "Normal", "reason": "r",
        "action": "a", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "1970-01-01T00:00:10.000000Z",
    });
    let (mut event, _) = create(&write, &cluster(), event).await.unwrap();
    let cells = write.kind.cells(&event, 70);
    assert_eq!((&cells[0], &cells[7]), (&json!("60s"), &json!("60s")));
    event["series"] = json!({"count": 2, "lastObservedTime": "1970-01-01T00:00:40.000000Z"});
    let cells = write.kind.cells(&event, 70);
    assert_eq!((&cells[0], &cells[7]), (&json!("30s"), &json!("60s")));
}

#[tokio::test]
async fn event_is_deleted_whatever_the_propagation_policy() {
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let (cluster, write) = (cluster(), write(kind("", "v1", "events"), "v1"));
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
        create(&write, &cluster, event).await.unwrap();
        let options = DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() };
        assert!(cluster.delete(&write, "e", &options).await.unwrap().gone);
    }
}

#[tokio::test]
async fn names_follow_the_rule_of_their_kind() {
    let cluster = cluster();
    let parent = json!({"spec": {"parentRef": {"resource": "services", "name": "s", "namespace": "n"}}});
    let budget = json!({"spec": {"selector": {}}});
    for (group, version, plural, object, name, expected) in [
        ("networking.k8s.io", "v1", "ipaddresses", &parent, "not-an-ip", false),
        ("networking.k8s.io", "v1", "ipaddresses", &parent, "010.0.0.1", false),
        ("networking.k8s.io", "v1", "ipaddresses", &parent, "2001:DB8::1", false),
        ("networking.k8s.io", "v1", "ipaddresses", &parent, "2001:db8::1", true),
        ("policy", "v1", "poddisruptionbudgets", &budget, "Bad_Name!", true),
        ("policy", "v1", "poddisruptionbudgets", &budget, "a/b", false),
    ] {
        let write = write(kind(group, version, plural), "v1");
        let mut object = object.clone();
        object["metadata"] = json!({"name": name});
        match create(&write, &cluster, object).await {
            Ok(_) => assert!(expected, "{plural} {name}"),
            Err(error) => {
                assert!(!expected, "{plural} {name}");
                assert!(causes(error).contains(&"metadata.name FieldValueInvalid".to_owned()), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn limit_range_without_a_name_gets_a_uuid() {
    let write = write(kind("", "v1", "limitranges"), "v1");
    let (range, _) = create(&write, &cluster(), json!({"spec": {"limits": []}})).await.unwrap();
    let name = range["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), name.matches('-').count()), (36, 4));
    assert_ne!(range["metadata"]["uid"], name);
}

#[tokio::test]
async fn job_gets_the_generated_labels_only_if_it_has_none() {
    let (cluster, write) = (cluster(), write(kind("batch", "v1", "jobs"), "batch/v1"));
    let job = |name: &str, labels: Value| {
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }}})
    };
    let (labelled, _) = create(&write, &cluster, job("a", json!({"app": "x"}))).await.unwrap();
    assert_eq!(labelled["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(labelled["spec"]["template"]["metadata"]["labels"].as_object().unwrap().len(), 5);
    let (unlabelled, _) = create(&write, &cluster, job("b", json!({}))).await.unwrap();
    assert_eq!(unlabelled["metadata"]["labels"], unlabelled["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(unlabelled["metadata"]["labels"]["job-name"], "b");
}

#[tokio::test]
async fn service_cidr_update_is_validated_only_where_it_adds_a_range() {
    let (cluster, write) =
        (cluster(), write(kind("networking.k8s.io", "v1", "servicecidrs"), "networking.k8s.io/v1"));
    let object = json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["10.0.0.0/24"]}});
    let (object, _) = create(&write, &cluster, object).await.unwrap();
    let with = |cidrs: Value| {
        let mut object = object.clone();
        object["spec"]["cidrs"] = cidrs;
        object
    };
    for (cidrs, expected) in [
        (json!(["x"]), ["spec.cidrs[0] FieldValueInvalid"].as_slice()),
        (json!([]), &["spec.cidrs FieldValueInvalid"]),
        (json!(["10.0.0.0/24", "x"]), &["spec.cidrs[1] FieldValueInvalid"]),
    ] {
        let error = update(&write, &cluster, &with(cidrs)).await.unwrap_err();
        assert_eq!(causes(error), expected);
    }
    update(&write, &cluster, &with(json!(["10.0.0.0/24", "fd00::/64"]))).await.unwrap();
}

#[tokio::test]
async fn rejected_event_is_named_after_the_group_in_which_it_is_stored() {
    let write = write(kind("events.k8s.io", "v1", "events"), "v1");
    let event = json!({"metadata": {"name": "e", "finalizers": ["plain"]}});
    let Error::Invalid { subject, errors } = create(&write, &cluster(), event).await.unwrap_err() else {
        panic!("it is invalid");
    };
    assert_eq!((&*subject.kind.group, &*subject.resource.group), ("", "events.k8s.io"));
    assert!(errors.iter().any(|error| error.field == "metadata.finalizers[0]"));
}

#[tokio::test]
async fn labels_of_a_stateful_set_template_are_reported_twice() {
    let write = write(kind("apps", "v1", "statefulsets"), "apps/v1");
    let set = json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b", "c": "d!"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let error = create(&write, &cluster(), set).await.unwrap_err();
    assert_eq!(causes(error), ["spec.template.labels FieldValueInvalid"; 2]);
}

#[tokio::test]
async fn definition_without_a_name_is_rejected_for_that_alone() {
    let write =
        write(kind("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "apiextensions.k8s.io/v1");
    let definition = |metadata: Value| {
        json!({"metadata": metadata, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }})
    };
    let error = create(&write, &cluster(), definition(json!({}))).await.unwrap_err();
    assert_eq!(causes(error), ["metadata.name FieldValueRequired"]);
    let error = create(&write, &cluster(), definition(json!({"generateName": "gen-"}))).await.unwrap_err();
    assert!(causes(error).contains(&"metadata.generateName FieldValueInvalid".to_owned()));
}
