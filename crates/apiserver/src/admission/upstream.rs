//! The whole chain, compared with the results of kube-apiserver v1.36.4 for the same pods in the same cluster.

use coracle_registry::Kind;
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::kinds::core::service_account::ServiceAccount;
use coracle_registry::kinds::node::runtime_class::RuntimeClass;
use coracle_registry::kinds::scheduling::priority_class::PriorityClass;
use serde_json::{Value, json};

use super::testing::{Bench, masters_only};
use super::{Chain, Operation};

const TOKENS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

async fn bench() -> Bench {
    let bench = Bench::new().await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        "imagePullSecrets": [{"name": "reg"}],
    });
    bench.create(&ServiceAccount, account).await;
    let runtime = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "rc"}, "handler": "h",
        "overhead": {"podFixed": {"cpu": "10m", "memory": "16Mi"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
    });
    bench.create(&RuntimeClass, runtime).await;
    let priority = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
        "value": 1000, "preemptionPolicy": "Never",
    });
    bench.create(&PriorityClass, priority).await;
    bench
}

/// Admits a new pod with the whole chain.
async fn admit(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
    Pod.set_defaults(&mut pod);
    let mut bench = bench().await;
    bench.requester.groups = vec!["system:masters".to_owned()];
    bench.admit(&Chain::built_in(&masters_only()), &Pod, Operation::Create, pod).await.unwrap()
}

fn container(volume: &Value) -> Value {
    json!({
        "image": "i", "imagePullPolicy": "Always", "name": "c", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "volumeMounts": [{"mountPath": TOKENS, "name": volume, "readOnly": true}],
    })
}

fn token_volume(name: &Value) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": namespace, "path": "namespace"}]}},
    ]}})
}

fn toleration(key: &str) -> Value {
    json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300})
}

#[tokio::test]
async fn minimal_pod_is_admitted_as_by_kube_apiserver() {
    let pod = admit(json!({"containers": [{"name": "c", "image": "i"}]})).await;
    let volume = &pod["spec"]["volumes"][0]["name"];
    let upstream = json!({
        "containers": [container(volume)],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "imagePullSecrets": [{"name": "reg"}],
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            toleration("node.kubernetes.io/not-ready"),
            toleration("node.kubernetes.io/unreachable"),
        ],
        "volumes": [token_volume(volume)],
    });
    assert_eq!(pod["spec"], upstream);
}

#[tokio::test]
async fn pod_with_classes_is_admitted_as_by_kube_apiserver() {
    let pod = admit(json!({
        "runtimeClassName": "rc", "priorityClassName": "high", "nodeSelector": {"c": "d"},
        "containers": [{"name": "c", "image": "i"}],
    }))
    .await;
    let volume = &pod["spec"]["volumes"][0]["name"];
    let upstream = json!({
        "containers": [container(volume)],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "imagePullSecrets": [{"name": "reg"}],
        "nodeSelector": {"a": "b", "c": "d"},
        "overhead": {"cpu": "10m", "memory": "16Mi"},
        "preemptionPolicy": "Never",
        "priority": 1000,
        "priorityClassName": "high",
        "restartPolicy": "Always",
        "runtimeClassName": "rc",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            toleration("node.kubernetes.io/not-ready"),
            toleration("node.kubernetes.io/unreachable"),
            {"key": "k", "operator": "Exists"},
        ],
        "volumes": [token_volume(volume)],
    });
    assert_eq!(pod["spec"], upstream);
}
