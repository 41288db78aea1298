//! Quotas in an in-memory cluster.

use coracle_registry::kinds::apps::deployment::Deployment;
use coracle_registry::kinds::core::config_map::ConfigMap;
use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::kinds::core::service::Service;
use serde_json::json;

use super::super::testing::Bench;
use super::*;

/// A cluster with a quota that has been counted once.
async fn bench(spec: Value) -> Bench {
    let bench = Bench::new().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    bench.create(&Kind, quota).await;
    bench
        .update(&Kind, "q", "status", |quota| {
            let hard = quota["spec"]["hard"].clone();
            let used = view::fields(&hard, &[]).map(|(name, _)| (name.clone(), json!("0")));
            let used: Value = used.collect::<serde_json::Map<_, _>>().into();
            quota["status"] = json!({"hard": hard, "used": used});
        })
        .await;
    bench
}

async fn used_of(bench: &Bench) -> Value {
    bench.get(&Kind, "q").await["status"]["used"].clone()
}

fn pod(cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
}

#[tokio::test]
async fn creates_are_charged_until_the_quota_is_exhausted() {
    let bench = bench(json!({"hard": {"requests.cpu": "1", "pods": "5", "configmaps": "1"}})).await;
    assert!(bench.admit_new(ResourceQuota, &Pod, pod("600m")).await.is_ok());
    assert_eq!(used_of(&bench).await, json!({"requests.cpu": "600m", "pods": "1", "configmaps": "0"}));
    let refused = bench.admit_new(ResourceQuota, &Pod, pod("500m")).await;
    let message = "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, \
                   used: requests.cpu=600m, limited: requests.cpu=1";
    assert_eq!(refused.unwrap_err(), message);
    assert_eq!(used_of(&bench).await["pods"], "1");
    let config_map = json!({"metadata": {"name": "m"}});
    assert!(bench.admit_new(ResourceQuota, &ConfigMap, config_map.clone()).await.is_ok());
    let refused = bench.admit_new(ResourceQuota, &ConfigMap, config_map).await;
    let message = "configmaps \"m\" is forbidden: exceeded quota: q, requested: configmaps=1, \
                   used: configmaps=1, limited: configmaps=1";
    assert_eq!(refused.unwrap_err(), message);
}

#[tokio::test]
async fn pod_must_specify_limited_resources() {
    let bench = bench(json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})).await;
    let silent = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    let refused = bench.admit_new(ResourceQuota, &Pod, silent).await;
    let message = "pods \"p\" is forbidden: failed quota: q: must specify limits.memory for: c; \
                   requests.cpu for: c";
    assert_eq!(refused.unwrap_err(), message);
}

#[tokio::test]
async fn quota_that_was_never_counted_rejects_writes() {
    let bench = bench(json!({"hard": {"pods": "5"}})).await;
    bench.update(&Kind, "q", "status", |quota| quota["status"]["used"] = json!({})).await;
    let refused = bench.admit_new(ResourceQuota, &Pod, pod("1")).await;
    assert_eq!(refused.unwrap_err(), "pods \"p\" is forbidden: status unknown for quota: q, resources: pods");
}

#[tokio::test]
async fn growth_is_charged_by_the_difference() {
    let bench = bench(json!({"hard": {"services.nodeports": "3", "services": "5"}})).await;
    let service =
        |kind: &str, ports: Value| json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": ports}});
    let old = service("NodePort", json!([{"port": 1}]));
    let new = service("NodePort", json!([{"port": 1}, {"port": 2}, {"port": 3}]));
    assert!(bench.admit_update(ResourceQuota, &Service, "", &old, new.clone()).await.is_ok());
    assert_eq!(used_of(&bench).await, json!({"services.nodeports": "2", "services": "0"}));
    assert!(bench.admit_update(ResourceQuota, &Service, "", &new, old.clone()).await.is_ok());
    let refused = bench.admit_update(ResourceQuota, &Service, "", &old, new).await;
    let message = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, \
                   used: services.nodeports=2, limited: services.nodeports=3";
    assert_eq!(refused.unwrap_err(), message);
}

#[tokio::test]
async fn scopes_select_charged_objects() {
    let bench = bench(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    for _ in 0..2 {
        assert!(bench.admit_new(ResourceQuota, &Pod, pod("1")).await.is_ok());
    }
    assert_eq!(used_of(&bench).await, json!({"pods": "0"}));
    let lazy = || json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    assert!(bench.admit_new(ResourceQuota, &Pod, lazy()).await.is_ok());
    assert!(bench.admit_new(ResourceQuota, &Pod, lazy()).await.is_err());
}

#[tokio::test]
async fn concurrent_creates_do_not_exceed_the_quota() {
    let bench = bench(json!({"hard": {"pods": "3"}})).await;
    let writes = (0..8).map(|_| bench.admit_new(ResourceQuota, &Pod, pod("1")));
    let outcomes = futures_util::future::join_all(writes).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    assert_eq!(used_of(&bench).await, json!({"pods": "3"}));
}

/// The expected messages are those of kube-apiserver v1.36.4 for the same writes in the same order.
#[tokio::test]
async fn messages_are_those_of_kube_apiserver() {
    let bench = bench(json!({"hard": {
        "requests.cpu": "1", "limits.memory": "1Gi", "pods": "5", "services.nodeports": "3", "services": "5",
        "count/deployments.apps": "0", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
        "requests.example.com/gpu": "1",
    }}))
    .await;
    let check = async |kind: &dyn coracle_registry::Kind, spec: Value, refused: Option<&str>| {
        let object = json!({"metadata": {"name": "x"}, "spec": spec});
        let outcome = bench.admit_new(ResourceQuota, kind, object).await;
        let resource = kind.declaration().group_resource();
        assert_eq!(outcome.err(), refused.map(|reason| format!("{resource} \"x\" is forbidden: {reason}")));
    };
    let silent = json!([{"name": "c"}, {"name": "b", "resources": {"requests": {"cpu": "1m"}}}]);
    let missing = "failed quota: q: must specify limits.memory for: b,c; requests.cpu for: c";
    check(&Pod, json!({"containers": silent}), Some(missing)).await;
    let resources =
        json!({"requests": {"cpu": "600m"}, "limits": {"memory": "600Mi", "example.com/gpu": "1"}});
    let pod = json!({"containers": [{"name": "c", "resources": resources}]});
    check(&Pod, pod.clone(), None).await;
    let exceeded = "exceeded quota: q, \
                    requested: limits.memory=600Mi,requests.cpu=600m,requests.example.com/gpu=1, \
                    used: limits.memory=600Mi,requests.cpu=600m,requests.example.com/gpu=1, \
                    limited: limits.memory=1Gi,requests.cpu=1,requests.example.com/gpu=1";
    check(&Pod, pod, Some(exceeded)).await;
    let exceeded = "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, \
                    limited: count/deployments.apps=0";
    check(&Deployment, json!({}), Some(exceeded)).await;
    let service = |kind: &str| json!({"type": kind, "ports": [{"port": 1}, {"port": 2}]});
    check(&Service, service("NodePort"), None).await;
    let exceeded = "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
                    limited: services.nodeports=3";
    check(&Service, service("LoadBalancer"), Some(exceeded)).await;
    let claim = json!({"storageClassName": "gold", "resources": {"requests": {"storage": "3Gi"}}});
    let exceeded = "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=3Gi, \
                    used: gold.storageclass.storage.k8s.io/requests.storage=0, \
                    limited: gold.storageclass.storage.k8s.io/requests.storage=2Gi";
    check(&PersistentVolumeClaim, claim, Some(exceeded)).await;
}
