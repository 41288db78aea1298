//! Bootstrap objects, and how clusters share them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_base::{Clock, Rng};
use coracle_registry::kinds::apiregistration::api_service::ApiService;
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::kinds::core::service::Service;
use coracle_registry::kinds::networking::ip_address::IpAddress;
use coracle_registry::kinds::scheduling::priority_class::PriorityClass;
use coracle_registry::kinds::storage::storage_class::StorageClass;
use coracle_registry::lifecycle::{
    Change, DeleteOptions, ListOptions, ObjectEvent, Page, Selection, WatchOptions, Write,
};
use coracle_registry::{
    Cluster, Endpoint, Error, Identity, Kind, LimitsChange, Registry, ServerInfo, catalog,
};
use coracle_store::{At, Store, memory};
use serde_json::{Value, json};

/// Number of bootstrap objects by resource.
const COUNTS: [(&str, usize); 17] = [
    ("namespaces", 4),
    ("services", 1),
    ("endpoints", 1),
    ("configmaps", 6),
    ("serviceaccounts", 4),
    ("endpointslices", 1),
    ("priorityclasses", 2),
    ("storageclasses", 1),
    ("flowschemas", 11),
    ("prioritylevelconfigurations", 8),
    ("apiservices", 22),
    ("servicecidrs", 1),
    ("ipaddresses", 1),
    ("clusterroles", 70),
    ("clusterrolebindings", 50),
    ("roles", 7),
    ("rolebindings", 7),
];

fn server_info() -> ServerInfo {
    let endpoint = Endpoint::new("192.0.2.1:6443".parse().unwrap());
    ServerInfo { endpoint, client_ca: Some("a certificate".into()), ..ServerInfo::default() }
}

async fn started(store: &Store, server_info: &ServerInfo) -> Registry {
    let registry = Registry::new(store.clone(), Clock::system(), Rng::from_entropy());
    registry.bootstrap(server_info).await.unwrap();
    registry
}

async fn registry() -> (Store, Registry) {
    let store = memory::open(memory::Options::default());
    let registry = started(&store, &server_info()).await;
    (store, registry)
}

/// A cluster, which is created unless it exists.
async fn opened(registry: &Registry, id: &str) -> Cluster {
    match registry.create_cluster(id, LimitsChange::default()).await {
        Ok(_) | Err(Error::ClusterExists { .. }) => registry.find_cluster(id).await.unwrap(),
        Err(error) => panic!("{error}"),
    }
}

async fn list(cluster: &Cluster, kind: &dyn Kind, options: ListOptions) -> Page {
    cluster.list(kind, "", &options).await.unwrap()
}

fn trees(page: &Page) -> Vec<Value> {
    page.entries.iter().map(|entry| serde_json::from_slice(&entry.value_bytes()).unwrap()).collect()
}

fn write(kind: &'static dyn Kind, namespace: &'static str) -> Write<'static> {
    let api_version = if kind.declaration().group.is_empty() { "v1" } else { "scheduling.k8s.io/v1" };
    Write {
        kind,
        api_version,
        served_version: "v1",
        namespace,
        subresource: "",
        manager: "test",
        requester: const { &Identity::server() },
        dry_run: false,
        audit: None,
        sent: None,
    }
}

async fn get(cluster: &Cluster, kind: &dyn Kind, namespace: &str, name: &str) -> Result<Value, Error> {
    let object = cluster.get(kind, namespace, name, None).await?;
    Ok(serde_json::from_slice(&object.json).unwrap())
}

async fn label(cluster: &Cluster, name: &str) -> Value {
    let patch = |mut object: Value| {
        object["metadata"]["labels"]["mine"] = "yes".into();
        Ok(object)
    };
    let updated = cluster.update(&write(&Namespace, ""), name, &Change::Patch(&patch)).await.unwrap();
    serde_json::from_slice(&updated.object.json).unwrap()
}

#[tokio::test]
async fn new_cluster_has_all_base_objects_and_stores_none() {
    let (store, registry) = registry().await;
    let tenant = opened(&registry, "tenant").await;
    let stored = store.count("", At::Latest).await.unwrap();
    for kind in catalog::BUILT_IN {
        let declaration = kind.declaration();
        let expected = COUNTS.iter().find(|(resource, _)| *resource == declaration.plural);
        let page = list(&tenant, *kind, ListOptions::default()).await;
        assert_eq!(page.entries.len(), expected.map_or(0, |(_, count)| *count), "{}", declaration.plural);
        for object in trees(&page) {
            assert_eq!(object["metadata"]["uid"].as_str().unwrap().len(), 36, "{object}");
            assert_eq!(object["kind"], declaration.kind.as_ref());
        }
    }
    assert_eq!(store.count("", At::Latest).await.unwrap(), stored);
}

#[tokio::test]
async fn kubernetes_service_has_endpoints_of_the_server() {
    let (_store, registry) = registry().await;
    let cluster = registry.cluster("default").unwrap();
    let service = get(&cluster, &Service, "default", "kubernetes").await.unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    let address = get(&cluster, &IpAddress, "", "10.96.0.1").await.unwrap();
    assert_eq!(address["spec"]["parentRef"]["name"], "kubernetes");
    let spec = json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80}]});
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}, "spec": spec});
    let refused = cluster.create(&write(&Service, "default"), other).await.unwrap_err().to_string();
    assert!(refused.ends_with("provided IP is already allocated"), "{refused}");
    for nowhere in ["127.0.0.1:1", "0.0.0.0:1", "[::1]:1", "169.254.0.1:1"] {
        assert_eq!(Endpoint::new(nowhere.parse().unwrap()), None);
    }
}

#[tokio::test]
async fn changed_bootstrap_object_is_stored_in_one_cluster_only() {
    let (store, registry) = registry().await;
    let (one, other) = (opened(&registry, "one").await, opened(&registry, "other").await);
    let before = get(&one, &Namespace, "", "default").await.unwrap();
    let changed = label(&one, "default").await;
    assert_eq!(changed["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(get(&one, &Namespace, "", "default").await.unwrap(), changed);
    assert!(
        get(&other, &Namespace, "", "default").await.unwrap()["metadata"]["labels"].get("mine").is_none()
    );
    assert_eq!(store.count("clusters/one/", At::Latest).await.unwrap().count, 1);
    assert_eq!(store.count("clusters/other/", At::Latest).await.unwrap().count, 0);

    let stale = write(&Namespace, "");
    let replaced = one.update(&stale, "default", &Change::Replace(before)).await;
    assert!(matches!(replaced, Err(Error::Modified(_))), "the revision that was read first is stale");
}

#[tokio::test]
async fn deleted_bootstrap_object_stays_deleted_until_the_next_start() {
    let (_store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    let (write, name) = (write(&PriorityClass, ""), "system-node-critical");
    let deleted = cluster.delete(&write, name, &DeleteOptions::default()).await.unwrap();
    assert!(deleted.gone);
    assert!(matches!(get(&cluster, &PriorityClass, "", name).await, Err(Error::NotFound(_))));
    assert_eq!(list(&cluster, &PriorityClass, ListOptions::default()).await.entries.len(), 1);
    let again = cluster.delete(&write, name, &DeleteOptions::default()).await;
    assert!(matches!(again, Err(Error::NotFound(_))));
    let own = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "own"}, "value": 1});
    cluster.create(&write, own).await.unwrap();
    assert_eq!(list(&cluster, &PriorityClass, ListOptions::default()).await.entries.len(), 2);
    cluster.reconcile().await.unwrap();
    assert_eq!(get(&cluster, &PriorityClass, "", name).await.unwrap()["value"], 2_000_001_000);
    assert_eq!(list(&cluster, &PriorityClass, ListOptions::default()).await.entries.len(), 3);
}

#[tokio::test]
async fn deleted_default_storage_class_is_not_restored() {
    let (_store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    let class = get(&cluster, &StorageClass, "", "standard").await.unwrap();
    assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");
    let write = Write { api_version: "storage.k8s.io/v1", ..write(&StorageClass, "") };
    cluster.delete(&write, "standard", &DeleteOptions::default()).await.unwrap();
    cluster.reconcile().await.unwrap();
    assert!(list(&cluster, &StorageClass, ListOptions::default()).await.entries.is_empty());
}

#[tokio::test]
async fn deleted_bootstrap_object_is_restored_with_another_uid() {
    let (_store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    let page = list(&cluster, &Service, ListOptions::default()).await;
    let options = WatchOptions { selection: Selection::default(), after: page.revision };
    let mut watch = cluster.watch(&Service, "", options).await.unwrap();
    let before = get(&cluster, &Service, "default", "kubernetes").await.unwrap();
    cluster.delete(&write(&Service, "default"), "kubernetes", &DeleteOptions::default()).await.unwrap();
    let after = get(&cluster, &Service, "default", "kubernetes").await.unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(matches!(watch.next().await.unwrap(), Some(ObjectEvent::Deleted(_))));
    assert!(matches!(watch.next().await.unwrap(), Some(ObjectEvent::Added(_))));
    // With its allocation.
    assert!(get(&cluster, &IpAddress, "", "10.96.0.1").await.is_ok());

    let api_service = Write { api_version: "apiregistration.k8s.io/v1", ..write(&ApiService, "") };
    cluster.delete(&api_service, "v1.apps", &DeleteOptions::default()).await.unwrap();
    let after = get(&cluster, &ApiService, "", "v1.apps").await.unwrap();
    assert_eq!(after["status"]["conditions"][0]["status"], "True");
}

#[tokio::test]
async fn lists_are_paged_over_shared_and_own_objects() {
    let (_store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    for name in ["a", "e", "kube-q", "z"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.create(&write(&Namespace, ""), namespace).await.unwrap();
    }
    let (mut names, mut remaining) = (Vec::new(), Vec::new());
    let mut options = ListOptions { limit: 3, ..ListOptions::default() };
    loop {
        let page = list(&cluster, &Namespace, options.clone()).await;
        names.extend(
            trees(&page).iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        remaining.push(page.remaining);
        options.continue_token = page.continue_token;
        if options.continue_token.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "default", "e", "kube-node-lease", "kube-public", "kube-q", "kube-system", "z"]);
    assert_eq!(remaining, [Some(5), Some(2), None]);
}

#[tokio::test]
async fn watch_from_list_revision_delivers_changes_of_bootstrap_objects() {
    let (_store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    let page = list(&cluster, &Namespace, ListOptions::default()).await;
    let shared = trees(&page)[0]["metadata"]["resourceVersion"].clone();
    assert_eq!(shared, page.entries[0].mod_revision().to_string());
    let selection = Selection { labels: "mine".parse().unwrap(), ..Selection::default() };
    let options = |selection| WatchOptions { selection, after: page.entries[0].mod_revision() };
    let mut all = cluster.watch(&Namespace, "", options(Selection::default())).await.unwrap();
    let mut mine = cluster.watch(&Namespace, "", options(selection)).await.unwrap();
    label(&cluster, "default").await;
    assert!(matches!(all.next().await.unwrap(), Some(ObjectEvent::Modified(_))), "it was there before");
    assert!(matches!(mine.next().await.unwrap(), Some(ObjectEvent::Added(_))), "it begins to match");
    let too_old = WatchOptions { selection: Selection::default(), after: coracle_registry::Revision::new(1) };
    assert!(matches!(cluster.watch(&Namespace, "", too_old).await, Err(Error::Expired { .. })));
}

#[tokio::test]
async fn uids_differ_between_clusters_and_are_stable() {
    let (store, registry) = registry().await;
    let uid = async |registry: &Registry, id: &str| {
        let cluster = opened(registry, id).await;
        get(&cluster, &Namespace, "", "kube-system").await.unwrap()["metadata"]["uid"].clone()
    };
    let (one, other) = (uid(&registry, "one").await, uid(&registry, "other").await);
    assert_ne!(one, other);
    assert_eq!(one.as_str().unwrap().as_bytes()[14], b'4', "the version of the UUID");
    let again = started(&store, &server_info()).await;
    assert_eq!(uid(&again, "one").await, one);
    let elsewhere = started(&memory::open(memory::Options::default()), &server_info()).await;
    assert_ne!(uid(&elsewhere, "one").await, one);
}

#[tokio::test]
async fn only_changed_bootstrap_objects_get_a_new_revision() {
    let (store, registry) = registry().await;
    let cluster = opened(&registry, "one").await;
    let own = label(&cluster, "default").await;
    let last = store.get("x").await.unwrap().revision;
    started(&store, &server_info()).await;
    assert_eq!(store.get("x").await.unwrap().revision, last);

    let moved = ServerInfo { endpoint: Endpoint::new("192.0.2.2:443".parse().unwrap()), ..server_info() };
    let registry = started(&store, &moved).await;
    assert_eq!(store.get("x").await.unwrap().revision, last.next());
    let cluster = opened(&registry, "one").await;
    let service = cluster.get(&Service, "default", "kubernetes", None).await.unwrap();
    assert_eq!(service.revision, last.next());
    assert_eq!(get(&cluster, &Namespace, "", "default").await.unwrap(), own, "own objects are unchanged");
    let before = WatchOptions { selection: Selection::default(), after: last };
    let expired = cluster.watch(&Service, "", before).await;
    assert!(matches!(expired, Err(Error::Expired { .. })), "an older watch must list again");
}
