//! ResourceQuotas: usage is counted, and released by deletion.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::time::Duration;

use coracle::kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use coracle::kube::core::GroupVersionKind;
use coracle::kube::{Client, Error, Resource};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "default";

async fn start() -> Handle {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    Coracle::start(config).await.unwrap()
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle())
        .await
        .expect("the controllers become idle")
        .unwrap();
}

fn objects<K>(client: &Client) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), NAMESPACE)
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await
}

async fn limit(client: &Client, spec: Value) {
    create(&objects::<ResourceQuota>(client), json!({"metadata": {"name": "q"}, "spec": spec}))
        .await
        .unwrap();
}

async fn used(client: &Client) -> Value {
    let status = objects::<ResourceQuota>(client).get("q").await.unwrap().status.unwrap();
    serde_json::to_value(status.used.unwrap()).unwrap()
}

/// The number of ConfigMaps.
async fn config_maps(client: &Client) -> String {
    objects::<ConfigMap>(client).list(&ListParams::default()).await.unwrap().items.len().to_string()
}

fn pod(name: &str) -> Value {
    let container = json!({"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}});
    let spec = json!({"containers": [container], "automountServiceAccountToken": false});
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn quota_counts_existing_objects_and_releases_deleted_ones() {
    let cluster = start().await;
    let client = cluster.client();
    let pods = objects::<Pod>(&client);
    idle(&cluster).await;
    create(&pods, pod("before")).await.unwrap();
    limit(&client, json!({"hard": {"pods": "2", "requests.cpu": "1", "configmaps": "5", "services": "1"}}))
        .await;
    idle(&cluster).await;
    let maps = config_maps(&client).await;
    let expected = |pods: &str, cpu: &str| json!({"pods": pods, "requests.cpu": cpu, "configmaps": maps, "services": "1"});
    assert_eq!(used(&client).await, expected("1", "100m"));

    create(&pods, pod("second")).await.unwrap();
    assert_eq!(used(&client).await, expected("2", "200m"));
    let refused = create(&pods, pod("third")).await.unwrap_err();
    assert!(refused.to_string().contains("exceeded quota: q"), "{refused}");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    create(&objects::<Service>(&client), service).await.unwrap_err();

    pods.delete("before", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
    idle(&cluster).await;
    assert_eq!(used(&client).await, expected("1", "100m"));
    create(&pods, pod("third")).await.unwrap();

    let more = json!({"spec": {"hard": {"pods": "10", "configmaps": null}}});
    objects::<ResourceQuota>(&client).patch("q", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    idle(&cluster).await;
    let quota = objects::<ResourceQuota>(&client).get("q").await.unwrap();
    let hard = quota.status.unwrap().hard.unwrap();
    assert_eq!(
        serde_json::to_value(hard).unwrap(),
        json!({"pods": "10", "requests.cpu": "1", "services": "1"})
    );
    assert_eq!(used(&client).await, json!({"pods": "2", "requests.cpu": "200m", "services": "1"}));
    cluster.shutdown().await;
}

#[tokio::test]
async fn ended_pods_do_not_count_against_the_quota() {
    let cluster = start().await;
    let client = cluster.client();
    let pods = objects::<Pod>(&client);
    limit(&client, json!({"hard": {"pods": "2", "count/pods": "5"}, "scopes": ["NotTerminating"]})).await;
    idle(&cluster).await;
    create(&pods, pod("p")).await.unwrap();
    assert_eq!(used(&client).await, json!({"pods": "1", "count/pods": "1"}));
    let ended = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    let quotas = objects::<ResourceQuota>(&client);
    support::wait_for(LIMIT, &quotas, "q", |quota| {
        let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
        used.is_some_and(|used| used["pods"].0 == "0" && used["count/pods"].0 == "1")
    })
    .await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn custom_resources_are_counted_as_soon_as_they_are_served() {
    let cluster = start().await;
    let client = cluster.client();
    limit(&client, json!({"hard": {"count/boats.example.org": "1", "count/configmaps": "3"}})).await;
    idle(&cluster).await;
    let maps = config_maps(&client).await;
    assert_eq!(used(&client).await, json!({"count/configmaps": maps}));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "metadata": {"name": "boats.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    create(&Api::<CustomResourceDefinition>::all(client.clone()), definition).await.unwrap();
    idle(&cluster).await;
    assert_eq!(used(&client).await, json!({"count/boats.example.org": "0", "count/configmaps": maps}));

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.org", "v1", "Boat"));
    let boats = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &kind);
    let boat =
        |name: &str| json!({"apiVersion": "example.org/v1", "kind": "Boat", "metadata": {"name": name}});
    create(&boats, boat("a")).await.unwrap();
    create(&boats, boat("b")).await.unwrap_err();
    boats.delete("a", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    create(&boats, boat("b")).await.unwrap();
    let map = json!({"metadata": {"name": "m"}});
    create(&objects::<ConfigMap>(&client), map).await.unwrap();
    let maps = config_maps(&client).await;
    assert_eq!(used(&client).await, json!({"count/boats.example.org": "1", "count/configmaps": maps}));
    cluster.shutdown().await;
}
