//! Garbage collection by owner references.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle::kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    PropagationPolicy,
};
use coracle::kube::core::GroupVersionKind;
use coracle::kube::{Client, Resource, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
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

fn config_maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Creates a ConfigMap with these owners.
async fn owned(client: &Client, name: &str, owners: &[Value]) -> ConfigMap {
    create(&config_maps(client), json!({"metadata": {"name": name, "ownerReferences": owners}})).await
}

fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "name": owner.name_any(), "uid": owner.uid().unwrap(),
    })
}

fn blocking<K: Resource<DynamicType = ()>>(owner: &K) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

async fn delete(client: &Client, name: &str, policy: PropagationPolicy) {
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    config_maps(client).delete(name, &params).await.unwrap();
}

/// The ConfigMaps that the test created and that still exist.
async fn remaining(client: &Client) -> Vec<String> {
    let all = config_maps(client).list(&ListParams::default()).await.unwrap();
    all.items.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test]
async fn dependents_are_deleted_after_their_last_owner() {
    let cluster = start().await;
    let client = cluster.client();
    let a = owned(&client, "a", &[]).await;
    let b = owned(&client, "b", &[]).await;
    let child = owned(&client, "child", &[reference(&a)]).await;
    owned(&client, "grandchild", &[reference(&child)]).await;
    owned(&client, "shared", &[reference(&a), reference(&b)]).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["a", "b", "child", "grandchild", "shared"]);

    delete(&client, "a", PropagationPolicy::Background).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["b", "shared"]);
    let shared = config_maps(&client).get("shared").await.unwrap();
    assert_eq!(serde_json::to_value(shared.owner_references()).unwrap(), json!([reference(&b)]));

    delete(&client, "b", PropagationPolicy::Background).await;
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty());
    cluster.shutdown().await;
}

#[tokio::test]
async fn dependent_of_a_nonexistent_owner_is_deleted() {
    let cluster = start().await;
    let client = cluster.client();
    let missing = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": uid});
    let real = owned(&client, "real", &[]).await;
    let wrong_name = {
        let mut wrong = reference(&real);
        wrong["name"] = json!("other");
        wrong
    };
    owned(&client, "x", &[missing("5a7b1c00-0000-4000-8000-0123456789ab")]).await;
    owned(&client, "y", &[missing("no uuid")]).await;
    owned(&client, "z", &[wrong_name]).await;
    let unknown = json!({"apiVersion": "example.org/v1", "kind": "Boat", "name": "b", "uid": "u"});
    owned(&client, "waits", &[unknown]).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["real", "waits"], "the kind of the owner is unknown");
    cluster.shutdown().await;
}

#[tokio::test]
async fn foreground_deletion_removes_the_owner_last() {
    let cluster = start().await;
    let client = cluster.client();
    let owner = owned(&client, "owner", &[]).await;
    let held =
        json!({"name": "held", "finalizers": ["example.org/hold"], "ownerReferences": [blocking(&owner)]});
    create(&config_maps(&client), json!({"metadata": held})).await;
    let child = owned(&client, "child", &[blocking(&owner)]).await;
    owned(&client, "grandchild", &[blocking(&child)]).await;
    owned(&client, "free", &[reference(&owner)]).await;
    delete(&client, "owner", PropagationPolicy::Foreground).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["held", "owner"]);
    let owner = config_maps(&client).get("owner").await.unwrap();
    assert_eq!(owner.finalizers(), ["foregroundDeletion"]);

    let free = json!({"metadata": {"finalizers": null}});
    config_maps(&client).patch("held", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty());
    cluster.shutdown().await;
}

#[tokio::test]
async fn dependent_with_another_owner_does_not_block_foreground_deletion() {
    let cluster = start().await;
    let client = cluster.client();
    let (going, staying) = (owned(&client, "going", &[]).await, owned(&client, "staying", &[]).await);
    owned(&client, "child", &[blocking(&going), reference(&staying)]).await;
    delete(&client, "going", PropagationPolicy::Foreground).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["child", "staying"]);
    let child = config_maps(&client).get("child").await.unwrap();
    assert_eq!(serde_json::to_value(child.owner_references()).unwrap(), json!([reference(&staying)]));
    cluster.shutdown().await;
}

#[tokio::test]
async fn cyclic_owners_are_deleted() {
    let cluster = start().await;
    let client = cluster.client();
    let a = owned(&client, "a", &[]).await;
    let b = owned(&client, "b", &[blocking(&a)]).await;
    let c = owned(&client, "c", &[blocking(&b)]).await;
    let closed = json!({"metadata": {"ownerReferences": [blocking(&c)]}});
    config_maps(&client).patch("a", &PatchParams::default(), &Patch::Merge(closed)).await.unwrap();
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["a", "b", "c"]);
    delete(&client, "a", PropagationPolicy::Foreground).await;
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty(), "{:?}", remaining(&client).await);
    cluster.shutdown().await;
}

#[tokio::test]
async fn orphaned_dependents_lose_their_owner_reference_and_stay() {
    let cluster = start().await;
    let client = cluster.client();
    let owner = owned(&client, "owner", &[]).await;
    for index in 0..40 {
        owned(&client, &format!("child-{index:02}"), &[blocking(&owner)]).await;
    }
    delete(&client, "owner", PropagationPolicy::Orphan).await;
    idle(&cluster).await;
    let children = config_maps(&client).list(&ListParams::default()).await.unwrap().items;
    let children: Vec<_> = children.iter().filter(|map| map.name_any().starts_with("child-")).collect();
    assert_eq!(children.len(), 40);
    assert!(children.iter().all(|child| child.owner_references().is_empty()));
    assert!(config_maps(&client).get_opt("owner").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn owner_in_another_namespace_is_invalid_and_reported() {
    let cluster = start().await;
    let client = cluster.client();
    let elsewhere = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    let owner = create(&elsewhere, json!({"metadata": {"name": "owner"}})).await;
    let child = owned(&client, "child", &[reference(&owner)]).await;
    let role = create(&Api::<ClusterRole>::all(client.clone()), json!({"metadata": {"name": "role"}})).await;
    owned(&client, "of-role", &[reference(&role)]).await;
    let roles = Api::<ClusterRole>::all(client.clone());
    create(&roles, json!({"metadata": {"name": "misled", "ownerReferences": [reference(&owner)]}})).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["of-role"]);
    assert!(roles.get_opt("misled").await.unwrap().is_some(), "the owner's namespace is unknown");
    let events =
        Api::<Event>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await.unwrap();
    let is_of_child = |event: &&Event| event.involved_object.name.as_deref() == Some("child");
    let event = events.items.iter().find(is_of_child).unwrap();
    assert_eq!(event.reason.as_deref(), Some("OwnerRefInvalidNamespace"));
    let expected = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {}] does not exist in namespace \"default\"",
        owner.uid().unwrap()
    );
    assert_eq!(event.message.as_ref(), Some(&expected));
    assert_eq!(event.involved_object.uid, child.uid());

    roles.delete("role", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty());
    cluster.shutdown().await;
}

fn boats(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.org", "v1", "Boat");
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

async fn define_boats(client: &Client) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "metadata": {"name": "boats.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    create(&Api::<CustomResourceDefinition>::all(client.clone()), definition).await;
}

async fn create_boat(client: &Client, name: &str, owners: &[Value]) -> Value {
    let metadata = json!({"name": name, "ownerReferences": owners});
    let boat = json!({"apiVersion": "example.org/v1", "kind": "Boat", "metadata": metadata});
    let boat = serde_json::from_value(boat).unwrap();
    let boat = boats(client).create(&PostParams::default(), &boat).await.unwrap();
    json!({"apiVersion": "example.org/v1", "kind": "Boat", "name": name, "uid": boat.uid().unwrap()})
}

#[tokio::test]
async fn custom_resources_can_own_and_be_owned_at_once() {
    let cluster = start().await;
    let client = cluster.client();
    idle(&cluster).await;
    define_boats(&client).await;
    idle(&cluster).await;
    let map = owned(&client, "map", &[]).await;
    create_boat(&client, "of-map", &[reference(&map)]).await;
    let boat = create_boat(&client, "owner", &[]).await;
    owned(&client, "of-boat", std::slice::from_ref(&boat)).await;
    create_boat(&client, "of-boat", &[boat]).await;
    idle(&cluster).await;

    delete(&client, "map", PropagationPolicy::Foreground).await;
    idle(&cluster).await;
    assert!(boats(&client).get_opt("of-map").await.unwrap().is_none());
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    boats(&client).delete("owner", &orphan).await.unwrap();
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["of-boat"]);
    assert!(boats(&client).get("of-boat").await.unwrap().owner_references().is_empty());
    cluster.shutdown().await;
}

#[tokio::test]
async fn dependents_of_custom_resources_are_deleted_with_their_definition() {
    let cluster = start().await;
    let client = cluster.client();
    define_boats(&client).await;
    idle(&cluster).await;
    let boat = create_boat(&client, "owner", &[]).await;
    owned(&client, "of-boat", &[boat]).await;
    idle(&cluster).await;
    assert_eq!(remaining(&client).await, ["of-boat"]);
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.delete("boats.example.org", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty());
    // Once more, with the same names.
    define_boats(&client).await;
    idle(&cluster).await;
    let boat = create_boat(&client, "owner", &[]).await;
    owned(&client, "of-boat", &[boat]).await;
    boats(&client).delete("owner", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(remaining(&client).await.is_empty());
    cluster.shutdown().await;
}

async fn create_namespace(client: &Client, name: &str) {
    create(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": name}})).await;
}

#[tokio::test]
async fn namespace_with_thousands_of_objects_is_deleted() {
    const OBJECTS: usize = 2000;
    let cluster = start().await;
    let client = cluster.client();
    create_namespace(&client, "full").await;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "full");
    let creations = (0..OBJECTS).map(|index| {
        let maps = maps.clone();
        async move { drop(create(&maps, json!({"metadata": {"name": format!("m-{index}")}})).await) }
    });
    futures_util::stream::iter(creations).buffer_unordered(32).collect::<()>().await;
    idle(&cluster).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete("full", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(namespaces.get_opt("full").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn namespace_is_deleted_as_soon_as_its_last_finalizer_is_removed() {
    let cluster = start().await;
    let client = cluster.client();
    create_namespace(&client, "held").await;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "held");
    create(&maps, json!({"metadata": {"name": "m", "finalizers": ["example.org/hold"]}})).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete("held", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let status = namespaces.get("held").await.unwrap().status.unwrap();
    let remaining = status.conditions.unwrap_or_default().into_iter();
    let remaining = remaining.filter(|condition| condition.status == "True").map(|condition| condition.type_);
    assert_eq!(remaining.collect::<Vec<_>>(), ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    let free = json!({"metadata": {"finalizers": null}});
    maps.patch("m", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    idle(&cluster).await;
    assert!(namespaces.get_opt("held").await.unwrap().is_none(), "the namespace waits for a timer");
    cluster.shutdown().await;
}
