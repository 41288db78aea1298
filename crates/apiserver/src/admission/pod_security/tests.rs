//! The plugin on whole writes, and every check in every version compared with kube-apiserver.

use coracle_registry::admission::Operation;
use coracle_registry::kinds::apps::deployment::Deployment;
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::kinds::core::pod::Pod as PodKind;
use serde_json::{Value, json};

use super::super::chain::Chain;
use super::super::testing::{Bench, NAMESPACE, only};
use super::evaluate::{details, reasons, violations};
use super::pod::Pod;
use super::policy::{Level, Standard, Version};
use super::*;

/// Pods, and their violations by version according to the evaluator of Kubernetes v1.36.4.
const EXPECTATIONS: &str = include_str!("../../../data/pod-security.json");

/// Later than every version in which a check changed.
const VERSIONS: u64 = 38;

fn plugin() -> PodSecurity {
    PodSecurity::new(&Metrics::default())
}

#[test]
fn checks_agree_with_kubernetes() {
    let data: Value = serde_json::from_str(EXPECTATIONS).unwrap();
    let pods = data["pods"].as_array().unwrap();
    assert!(pods.len() > 100, "{}", pods.len());
    for entry in pods {
        for (level, told) in [(Level::Baseline, "baseline"), (Level::Restricted, "restricted")] {
            for minor in 0..VERSIONS {
                let known = entry[told].as_array().unwrap();
                let message = known.iter().rev().find(|known| known[0].as_u64() <= Some(minor)).unwrap();
                let message = usize::try_from(message[1].as_u64().unwrap()).unwrap();
                let version = Version::Minor(u32::try_from(minor).unwrap());
                let found = violations(Standard { level, version }, &Pod::of(&entry["pod"]));
                let shown = format!("{told} v1.{minor} {}", entry["pod"]);
                assert_eq!(details(&found), data["messages"][message].as_str().unwrap(), "{shown}");
                assert_eq!(reasons(&found), data["reasons"][message].as_str().unwrap(), "{shown}");
                if minor + 1 == VERSIONS {
                    let latest = Standard { level, version: Version::Latest };
                    assert_eq!(violations(latest, &Pod::of(&entry["pod"])), found, "{shown}");
                }
            }
        }
    }
}

/// A cluster whose namespace has these labels.
async fn bench(labels: Value) -> Bench {
    let bench = Bench::new().await;
    let merge = |mut namespace: Value| {
        namespace["metadata"]["labels"] = labels.clone();
        Ok(namespace)
    };
    bench.change(&Namespace, NAMESPACE, &merge).await;
    bench
}

fn enforce(level: &str) -> Value {
    json!({"pod-security.kubernetes.io/enforce": level})
}

fn pod(extra: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    if let Value::Object(fields) = extra {
        pod["spec"].as_object_mut().unwrap().extend(fields);
    }
    pod
}

#[tokio::test]
async fn pod_that_violates_the_enforced_standard_is_rejected() {
    let bench = bench(enforce("restricted")).await;
    let refused = bench.admit(&only(plugin()), &PodKind, Operation::Create, pod(json!({}))).await;
    assert_eq!(
        refused.unwrap_err(),
        "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false \
         (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
         (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
         container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must \
         set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let baseline = self::bench(enforce("baseline")).await;
    let chain = only(plugin());
    assert!(baseline.admit(&chain, &PodKind, Operation::Create, pod(json!({}))).await.is_ok());
    let refused = baseline.admit(&chain, &PodKind, Operation::Create, pod(json!({"hostPID": true}))).await;
    assert_eq!(
        refused.unwrap_err(),
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"
    );
}

#[tokio::test]
async fn writes_without_effect_on_containers_are_admitted() {
    let bench = bench(enforce("restricted")).await;
    let old = pod(json!({}));
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(bench.admit_update(plugin(), &PodKind, "", &old, labelled).await.is_ok());
    let mut other_image = old.clone();
    other_image["spec"]["containers"][0]["image"] = json!("j");
    assert!(bench.admit_update(plugin(), &PodKind, "", &old, other_image.clone()).await.is_err());
    assert!(bench.admit_update(plugin(), &PodKind, "status", &old, other_image).await.is_ok());
    let looking_in = pod(json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}));
    assert!(bench.admit_update(plugin(), &PodKind, "ephemeralcontainers", &old, looking_in).await.is_err());
    let chain = only(plugin());
    assert!(bench.admit_part(&chain, &PodKind, "binding", json!({"metadata": {"name": "p"}})).await.is_ok());
}

#[tokio::test]
async fn workload_gets_warnings_about_its_template() {
    let bench = bench(enforce("baseline")).await;
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"template": pod(json!({"hostNetwork": true}))},
    });
    let warnings = bench.warnings(&only(plugin()), &Deployment, Operation::Create, None, &deployment).await;
    assert_eq!(
        warnings.unwrap(),
        ["would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"]
    );
}

#[tokio::test]
async fn invalid_labels_are_rejected_unless_unchanged() {
    let bench = Bench::new().await;
    let namespace = |level: &str| json!({"metadata": {"name": "n", "labels": enforce(level)}});
    let chain = only(plugin());
    let refused = bench.admit(&chain, &Namespace, Operation::Create, namespace("x")).await;
    assert_eq!(
        refused.unwrap_err(),
        "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": \
         must be one of privileged, baseline, restricted"
    );
    let (old, other) = (namespace("x"), namespace("y"));
    assert!(bench.admit_update(plugin(), &Namespace, "", &old, namespace("x")).await.is_ok());
    assert!(bench.admit_update(plugin(), &Namespace, "", &old, other).await.is_err());
}

#[tokio::test]
async fn stricter_namespace_gets_warnings_about_existing_pods() {
    let bench = bench(json!({})).await;
    let mut running = pod(json!({"hostIPC": true}));
    running["metadata"]["name"] = json!("running");
    bench.create(&PodKind, running).await;
    let namespace = |labels: Value| json!({"metadata": {"name": NAMESPACE, "labels": labels}});
    let (old, new) = (namespace(json!({})), namespace(enforce("baseline")));
    let chain: Chain = only(plugin());
    let warnings = bench.warnings(&chain, &Namespace, Operation::Update, Some(&old), &new).await.unwrap();
    assert_eq!(
        warnings,
        [
            "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "running: host namespaces",
        ]
    );
    // An unchanged level gives no warnings.
    let warnings = bench.warnings(&chain, &Namespace, Operation::Update, Some(&new), &new).await.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn audit_annotations_have_the_policy_and_the_violations() {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.30",
        "pod-security.kubernetes.io/audit": "baseline",
    });
    let bench = bench(labels).await;
    let chain = only(plugin());
    let enforced = "pod-security.kubernetes.io/enforce-policy: baseline:v1.30";
    assert_eq!(bench.noted(&chain, &PodKind, pod(json!({}))).await, [enforced]);
    let violated = "pod-security.kubernetes.io/audit-violations: would violate PodSecurity \
                    \"baseline:latest\": host namespaces (hostPID=true)";
    let pod = pod(json!({"hostPID": true}));
    assert_eq!(bench.noted(&chain, &PodKind, pod.clone()).await, [violated, enforced]);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": pod}});
    assert_eq!(bench.noted(&chain, &Deployment, deployment).await, [violated]);
    let broken = self::bench(json!({"pod-security.kubernetes.io/audit": "x"})).await;
    let mistake = "pod-security.kubernetes.io/error: Failed to parse policy: \
                   metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"x\": must be one of \
                   privileged, baseline, restricted";
    let noted = broken.noted(&chain, &PodKind, self::pod(json!({}))).await;
    assert_eq!(noted, ["pod-security.kubernetes.io/enforce-policy: privileged:latest", mistake]);
}

#[tokio::test]
async fn pod_update_in_a_missing_namespace_needs_no_policy_unless_images_change() {
    let bench = Bench { namespace: "gone", ..Bench::new().await };
    let pod = |image: &str, finalizers: Value| {
        json!({
            "metadata": {"name": "p", "namespace": "gone", "finalizers": finalizers},
            "spec": {"containers": [{"name": "c", "image": image}]},
        })
    };
    let (old, freed) = (pod("i", json!(["example.org/hold"])), pod("i", json!([])));
    assert!(bench.admit_update(plugin(), &PodKind, "", &old, freed).await.is_ok());
    let changed = pod("other", json!([]));
    let refused = bench.admit_update(plugin(), &PodKind, "", &old, changed).await;
    assert_eq!(refused.unwrap_err(), "namespaces \"gone\" not found");
}
