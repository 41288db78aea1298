//! The life cycle of objects, on a store in memory.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_base::{Clock, Rng};
use coracle_meta::selector::{fields, labels};
use coracle_registry::kinds::core::config_map::ConfigMap;
use coracle_registry::lifecycle::{
    Change, DeleteOptions, ListOptions, Object, ObjectEvent, Preconditions, Propagation, Selection,
    WatchOptions, Write,
};
use coracle_registry::{Cluster, Error, Identity, LimitsChange, Registry};
use coracle_store::{Revision, Store, memory};
use serde_json::{Value, json};

const WRITE: Write<'static> = Write {
    kind: &ConfigMap,
    api_version: "v1",
    served_version: "v1",
    namespace: "default",
    subresource: "",
    manager: "test",
    requester: &Identity::server(),
    dry_run: false,
    audit: None,
    sent: None,
};

fn cluster() -> (Store, Cluster) {
    let store = memory::open(memory::Options::default());
    let registry = Registry::new(store.clone(), Clock::system(), Rng::seeded(1));
    (store, registry.cluster("default").unwrap())
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"value": value}}, "data": {"key": value}})
}

fn tree(object: &Object) -> Value {
    serde_json::from_slice(&object.json).unwrap()
}

#[tokio::test]
async fn created_object_has_server_managed_metadata() {
    let (_store, cluster) = cluster();
    let created = cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    let object = tree(&created.object);
    let meta = &object["metadata"];
    assert_eq!(meta["resourceVersion"], created.object.revision.to_string());
    assert_eq!((&meta["namespace"], &meta["name"]), (&json!("default"), &json!("a")));
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert!(meta["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    let entry = &meta["managedFields"][0];
    assert_eq!(
        (&entry["manager"], &entry["operation"], &entry["apiVersion"]),
        (&json!("test"), &json!("Update"), &json!("v1"))
    );
    assert_eq!(entry["fieldsV1"]["f:data"], json!({".": {}, "f:key": {}}));
    let read = cluster.get(&ConfigMap, "default", "a", None).await.unwrap();
    assert_eq!(read.json, created.object.json, "the same bytes are read");
    assert!(matches!(cluster.create(&WRITE, config_map("a", "2")).await, Err(Error::AlreadyExists(_))));
}

#[tokio::test]
async fn invalid_object_is_rejected() {
    let (_store, cluster) = cluster();
    let Err(Error::Invalid { errors, .. }) =
        cluster.create(&WRITE, json!({"metadata": {"name": "A_b"}, "data": {"a/b": ""}})).await
    else {
        panic!("neither the name nor the key may be");
    };
    let mut found: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["data[a/b]", "metadata.name"]);
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "other"}});
    assert!(matches!(cluster.create(&WRITE, elsewhere).await, Err(Error::NamespaceMismatch(_))));
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    assert!(matches!(cluster.create(&WRITE, versioned).await, Err(Error::Unspecific(_))));
    assert!(matches!(cluster.get(&ConfigMap, "default", "a", None).await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn generate_name_gives_a_name() {
    let (_store, cluster) = cluster();
    let object = json!({"metadata": {"generateName": "job-"}});
    let first = tree(&cluster.create(&WRITE, object.clone()).await.unwrap().object);
    let second = tree(&cluster.create(&WRITE, object).await.unwrap().object);
    let name = first["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("job-") && name.len() == 9);
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[tokio::test]
async fn update_with_stale_resource_version_is_rejected() {
    let (_store, cluster) = cluster();
    let created = cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    let mut object = tree(&created.object);
    object["data"]["key"] = json!("2");
    let updated = cluster.update(&WRITE, "a", &Change::Replace(object.clone())).await.unwrap();
    assert!(updated.object.revision > created.object.revision && !updated.created);
    let stale = cluster.update(&WRITE, "a", &Change::Replace(object.clone())).await;
    assert!(matches!(stale, Err(Error::Modified(_))));
    object["metadata"]["resourceVersion"] = json!("");
    let unchanged = cluster.update(&WRITE, "a", &Change::Replace(object)).await.unwrap();
    assert_eq!(unchanged.object.revision, updated.object.revision, "nothing to write, nothing written");
    let missing = cluster.update(&WRITE, "b", &Change::Replace(config_map("b", "1"))).await;
    assert!(matches!(missing, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn concurrent_patches_are_all_applied() {
    let (_store, cluster) = cluster();
    cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..16 {
        let cluster = cluster.clone();
        writers.spawn(async move {
            let patch = move |mut object: Value| {
                object["data"][format!("k{n}")] = json!("x");
                Ok(object)
            };
            cluster.update(&WRITE, "a", &Change::Patch(&patch)).await.unwrap();
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let object = tree(&cluster.get(&ConfigMap, "default", "a", None).await.unwrap());
    assert_eq!(object["data"].as_object().unwrap().len(), 17);
}

#[tokio::test]
async fn apply_creates_merges_and_conflicts() {
    let (_store, cluster) = cluster();
    let apply = |manager, config, force| {
        let write = Write { manager, ..WRITE };
        let cluster = cluster.clone();
        async move {
            let change = Change::Apply { config: &config, force, once_merged: &|| Ok(()) };
            cluster.update(&write, "a", &change).await
        }
    };
    let created = apply("one", config_map("a", "1"), false).await.unwrap();
    assert!(created.created);
    let same = apply("one", config_map("a", "1"), false).await.unwrap();
    assert_eq!(same.object.revision, created.object.revision);
    let Err(Error::ApplyConflict(conflicts)) = apply("two", config_map("a", "2"), false).await else {
        panic!("another owns it");
    };
    assert!(conflicts.to_string().contains(".data.key"), "{conflicts}");
    let forced = apply("two", config_map("a", "2"), true).await.unwrap();
    assert_eq!(tree(&forced.object)["data"]["key"], "2");
}

#[tokio::test]
async fn deletion_waits_for_finalizers() {
    let (_store, cluster) = cluster();
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.create(&WRITE, object).await.unwrap();
    let begun = cluster.delete(&WRITE, "a", &DeleteOptions::default()).await.unwrap();
    assert!(!begun.gone);
    let mut object = tree(&begun.object);
    assert!(object["metadata"]["deletionTimestamp"].is_string());
    let again = cluster.delete(&WRITE, "a", &DeleteOptions::default()).await.unwrap();
    assert_eq!(again.object.revision, begun.object.revision, "already terminating");
    object["metadata"]["finalizers"] = json!([]);
    cluster.update(&WRITE, "a", &Change::Replace(object)).await.unwrap();
    assert!(matches!(cluster.get(&ConfigMap, "default", "a", None).await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn deletion_checks_preconditions() {
    let (_store, cluster) = cluster();
    cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    let options = DeleteOptions {
        preconditions: Preconditions { uid: Some("another".into()), ..Preconditions::default() },
        ..DeleteOptions::default()
    };
    let refused = cluster.delete(&WRITE, "a", &options).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    let dry =
        cluster.delete(&Write { dry_run: true, ..WRITE }, "a", &DeleteOptions::default()).await.unwrap();
    assert!(dry.gone);
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let kept = cluster.delete(&WRITE, "a", &options).await.unwrap();
    assert_eq!(tree(&kept.object)["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[tokio::test]
async fn lists_support_pages_and_selectors() {
    let (store, cluster) = cluster();
    for n in 0..5 {
        cluster.create(&WRITE, config_map(&format!("c{n}"), &(n % 2).to_string())).await.unwrap();
    }
    let first = cluster
        .list(&ConfigMap, "default", &ListOptions { limit: 2, ..ListOptions::default() })
        .await
        .unwrap();
    assert_eq!((first.entries.len(), first.remaining), (2, Some(3)));
    cluster.create(&WRITE, config_map("c9", "9")).await.unwrap();
    let rest = ListOptions { continue_token: first.continue_token.clone(), ..ListOptions::default() };
    let rest = cluster.list(&ConfigMap, "default", &rest).await;
    let rest = rest.unwrap();
    assert_eq!((rest.entries.len(), rest.revision, rest.continue_token), (3, first.revision, None));

    let selection =
        Selection { labels: "value=1".parse::<labels::Selector>().unwrap(), ..Selection::default() };
    let odd = cluster
        .list(&ConfigMap, "", &ListOptions { selection, limit: 1, ..ListOptions::default() })
        .await
        .unwrap();
    assert_eq!((odd.entries.len(), odd.remaining, odd.continue_token.is_some()), (1, None, true));
    let selection =
        Selection { fields: fields::Selector::equals("metadata.name", "c3"), ..Selection::default() };
    let one =
        cluster.list(&ConfigMap, "", &ListOptions { selection, ..ListOptions::default() }).await.unwrap();
    assert_eq!(one.entries.len(), 1);

    let latest = store.stats().await.unwrap().revision;
    store.compact(latest).await.unwrap();
    let old = ListOptions { limit: 2, continue_token: first.continue_token, ..ListOptions::default() };
    let Err(Error::ContinueExpired { fresh }) = cluster.list(&ConfigMap, "default", &old).await else {
        panic!("its revision is gone");
    };
    let fresh = ListOptions { continue_token: Some(fresh), ..ListOptions::default() };
    assert_eq!(cluster.list(&ConfigMap, "default", &fresh).await.unwrap().entries.len(), 4);
    for bad in ["", "x", "e30"] {
        let options = ListOptions { continue_token: Some(bad.into()), ..ListOptions::default() };
        assert!(matches!(cluster.list(&ConfigMap, "", &options).await, Err(Error::BadRequest(_))), "{bad:?}");
    }
}

#[tokio::test]
async fn watch_with_selector_delivers_added_and_deleted_events() {
    let (_store, cluster) = cluster();
    let selection =
        Selection { labels: "value=1".parse::<labels::Selector>().unwrap(), ..Selection::default() };
    let options = WatchOptions { selection, after: Revision::INITIAL };
    let mut watch = cluster.watch(&ConfigMap, "default", options).await.unwrap();
    let created = cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    cluster.create(&WRITE, config_map("b", "2")).await.unwrap();
    let relabel = |value: &'static str| {
        move |mut object: Value| {
            object["metadata"]["labels"]["value"] = json!(value);
            Ok(object)
        }
    };
    let gone = cluster.update(&WRITE, "a", &Change::Patch(&relabel("2"))).await.unwrap().object;
    let back = cluster.update(&WRITE, "a", &Change::Patch(&relabel("1"))).await.unwrap().object;
    cluster.delete(&WRITE, "a", &DeleteOptions::default()).await.unwrap();
    let Some(ObjectEvent::Added(state)) = watch.next().await.unwrap() else { panic!("it counts") };
    assert_eq!(state.json(), created.object.json);
    let Some(ObjectEvent::Deleted(last)) = watch.next().await.unwrap() else { panic!("it no longer counts") };
    let last: Value = serde_json::from_slice(&last.json()).unwrap();
    assert_eq!(last["metadata"]["resourceVersion"], gone.revision.to_string());
    assert_eq!(last["metadata"]["labels"]["value"], "1", "its last state that matched");
    let Some(ObjectEvent::Added(state)) = watch.next().await.unwrap() else { panic!("it counts again") };
    assert_eq!(state.json(), back.json);
    assert!(matches!(watch.next().await.unwrap(), Some(ObjectEvent::Deleted(_))));
}

#[tokio::test]
async fn clusters_are_isolated() {
    let store = memory::open(memory::Options::default());
    let registry = Registry::new(store, Clock::system(), Rng::seeded(1));
    for id in ["one", "two"] {
        registry.create_cluster(id, LimitsChange::default()).await.unwrap();
    }
    let (one, two) = (registry.cluster("one").unwrap(), registry.cluster("two").unwrap());
    one.create(&WRITE, config_map("a", "1")).await.unwrap();
    two.create(&WRITE, config_map("a", "2")).await.unwrap();
    assert_eq!(one.list(&ConfigMap, "", &ListOptions::default()).await.unwrap().entries.len(), 1);
    assert!(registry.cluster("a/b").is_err());
}

#[tokio::test]
async fn namespace_of_the_path_is_added_to_the_object() {
    let (_store, cluster) = cluster();
    cluster.create(&WRITE, config_map("a", "1")).await.unwrap();
    let updated = cluster.update(&WRITE, "a", &Change::Replace(config_map("a", "2"))).await.unwrap();
    assert_eq!(tree(&updated.object)["metadata"]["namespace"], "default");
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "other"}});
    let refused = cluster.update(&WRITE, "a", &Change::Replace(elsewhere)).await;
    assert!(matches!(refused, Err(Error::NamespaceMismatch(_))));
}

#[tokio::test]
async fn applier_owns_only_applied_fields() {
    use coracle_registry::kinds::resource::resource_claim::ResourceClaim;

    let (_store, cluster) = cluster();
    let write = Write { kind: &ResourceClaim, api_version: "resource.k8s.io/v1", ..WRITE };
    let type_meta = |mut object: Value| {
        object["apiVersion"] = json!("resource.k8s.io/v1");
        object["kind"] = json!("ResourceClaim");
        object
    };
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "c"}}]);
    let claim = json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": requests}}});
    cluster.create(&write, type_meta(claim)).await.unwrap();
    let config = type_meta(json!({"metadata": {"name": "a", "labels": {"b": "c"}}}));
    let change = Change::Apply { config: &config, force: false, once_merged: &|| Ok(()) };
    let applied = tree(&cluster.update(&write, "a", &change).await.unwrap().object);
    assert_eq!(applied["metadata"]["labels"], json!({"b": "c"}));
    assert_eq!(applied["spec"]["devices"]["requests"][0]["name"], "r");
}

#[tokio::test]
async fn unset_status_is_present_where_kubernetes_writes_it() {
    use coracle_registry::kinds::apps::deployment::Deployment;

    let (_store, cluster) = cluster();
    let write = Write { kind: &Deployment, api_version: "apps/v1", ..WRITE };
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}});
    let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": {"replicas": 3}});
    let created = tree(&cluster.create(&write, object).await.unwrap().object);
    assert_eq!(created["status"], json!({}));
}
