//! Clusters are created, limited and deleted explicitly.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_base::{Clock, Rng};
use coracle_registry::kinds::core::config_map::ConfigMap;
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::lifecycle::{Change, DeleteOptions, Write};
use coracle_registry::{
    Cluster, ClusterLimits, ClusterUsage, Error, Identity, Kind, LimitsChange, Registry, Result, ServerInfo,
};
use coracle_store::{At, Put, Store, memory};
use serde_json::{Value, json};

/// Cycles of creation and deletion.
const CYCLES: usize = 1_000;

fn open() -> (Store, Registry) {
    let store = memory::open(memory::Options::default());
    let registry = another(&store);
    (store, registry)
}

/// Another server over the same store.
fn another(store: &Store) -> Registry {
    Registry::new(store.clone(), Clock::system(), Rng::from_entropy())
}

fn write(kind: &'static dyn Kind, namespace: &'static str) -> Write<'static> {
    Write {
        kind,
        api_version: "v1",
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

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

async fn create(cluster: &Cluster, name: &str, value: &str) -> Result<()> {
    cluster.create(&write(&ConfigMap, "default"), config_map(name, value)).await.map(drop)
}

async fn set(cluster: &Cluster, name: &str, value: &str) -> Result<()> {
    let change = |mut object: Value| {
        object["data"]["k"] = value.into();
        Ok(object)
    };
    cluster.update(&write(&ConfigMap, "default"), name, &Change::Patch(&change)).await.map(drop)
}

async fn delete(cluster: &Cluster, name: &str) {
    cluster.delete(&write(&ConfigMap, "default"), name, &DeleteOptions::default()).await.unwrap();
}

/// The keys of a cluster and of its record.
async fn keys_of(store: &Store, id: &str) -> (u64, u64) {
    let count = async |prefix: String| store.count(prefix, At::Latest).await.unwrap().count;
    (count(format!("clusters/{id}/")).await, count(format!("cluster-records/{id}")).await)
}

async fn ids(registry: &Registry) -> Vec<String> {
    registry.cluster_infos().await.unwrap().into_iter().map(|info| info.id).collect()
}

const DEFAULT_LIMITS: LimitsChange = LimitsChange { max_bytes: None, max_objects: None };

#[tokio::test]
async fn unknown_cluster_is_not_found_and_leaves_nothing() {
    let (store, registry) = open();
    registry.open_clusters().await.unwrap();
    let before = (store.stats().await.unwrap().revision, registry.held_clusters());
    for id in ["t1", "t2", "-", "", "a/b", "*"] {
        assert!(registry.find_cluster(id).await.is_err(), "{id:?}");
    }
    assert!(matches!(registry.find_cluster("t1").await, Err(Error::UnknownCluster { .. })));
    assert!(matches!(registry.delete_cluster("t1").await, Err(Error::UnknownCluster { .. })));
    assert_eq!((store.stats().await.unwrap().revision, registry.held_clusters()), before);
}

#[tokio::test]
async fn created_cluster_is_listed_until_it_is_deleted() {
    let (store, registry) = open();
    let created = registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    assert_eq!(created.limits, ClusterLimits::OF_CREATED_CLUSTERS);
    assert_eq!(registry.cluster("t1").unwrap().uid(), created.uid);
    assert_eq!(ids(&registry).await, ["default", "t1"]);
    let again = registry.create_cluster("t1", DEFAULT_LIMITS).await;
    assert!(matches!(again, Err(Error::ClusterExists { deleting: false, .. })));
    for id in ["", "A", "a_b", "a.b", "*", &"x".repeat(64)] {
        let invalid = registry.create_cluster(id, DEFAULT_LIMITS).await;
        assert!(matches!(invalid, Err(Error::InvalidClusterId { .. })), "{id:?}");
    }
    create(&registry.cluster("t1").unwrap(), "a", "1").await.unwrap();
    assert_eq!(keys_of(&store, "t1").await, (1, 1));
    registry.delete_cluster("t1").await.unwrap();
    assert_eq!(keys_of(&store, "t1").await, (0, 0));
    assert_eq!(ids(&registry).await, ["default"]);
    assert!(matches!(registry.cluster("t1"), Err(Error::UnknownCluster { .. })));
    let recreated = registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    assert_ne!(recreated.uid, created.uid);
}

#[tokio::test]
async fn default_cluster_always_exists() {
    let (_store, registry) = open();
    assert!(matches!(
        registry.create_cluster("default", DEFAULT_LIMITS).await,
        Err(Error::ClusterExists { .. })
    ));
    assert!(matches!(registry.delete_cluster("default").await, Err(Error::DefaultClusterUndeletable)));
    assert_eq!(registry.cluster("default").unwrap().uid(), "");
}

#[tokio::test]
async fn recreated_cluster_has_base_objects_with_other_uids() {
    let (_store, registry) = open();
    registry.bootstrap(&ServerInfo::default()).await.unwrap();
    let uid = async || {
        registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
        let cluster = registry.cluster("t1").unwrap();
        let namespace = cluster.find(&Namespace, "", "default").await.unwrap().unwrap();
        registry.delete_cluster("t1").await.unwrap();
        namespace["metadata"]["uid"].clone()
    };
    assert_ne!(uid().await, uid().await);
}

#[tokio::test]
async fn write_through_an_old_handle_fails_after_the_deletion() {
    let (store, registry) = open();
    registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    let old = registry.cluster("t1").unwrap();
    assert!(!old.is_deleted());
    registry.delete_cluster("t1").await.unwrap();
    assert!(old.is_deleted());
    assert!(matches!(create(&old, "a", "1").await, Err(Error::UnknownCluster { .. })));
    registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    assert!(
        matches!(create(&old, "a", "1").await, Err(Error::UnknownCluster { .. })),
        "it is another cluster"
    );
    assert_eq!(keys_of(&store, "t1").await, (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_that_race_with_the_deletion_leave_nothing() {
    let (store, registry) = open();
    for round in 0..50 {
        registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let cluster = registry.cluster("t1").unwrap();
                coracle_base::Task::spawn("writer", async move {
                    let mut written = 0;
                    while create(&cluster, &format!("{writer}-{written}"), "x").await.is_ok() {
                        written += 1;
                    }
                    written
                })
            })
            .collect();
        while round % 2 == 0 && keys_of(&store, "t1").await.0 < 8 {
            tokio::task::yield_now().await;
        }
        registry.delete_cluster("t1").await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(keys_of(&store, "t1").await, (0, 0), "round {round}");
    }
}

#[tokio::test]
async fn cluster_of_many_pages_is_deleted_whole() {
    let (store, registry) = open();
    registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    registry.create_cluster("t10", DEFAULT_LIMITS).await.unwrap();
    let (cluster, neighbour) = (registry.cluster("t1").unwrap(), registry.cluster("t10").unwrap());
    for number in 0..350 {
        create(&cluster, &format!("m{number}"), "x").await.unwrap();
    }
    create(&cluster, "large", &"x".repeat(1 << 20)).await.unwrap();
    create(&neighbour, "a", "x").await.unwrap();
    registry.delete_cluster("t1").await.unwrap();
    assert_eq!(keys_of(&store, "t1/").await, (0, 0));
    assert_eq!(keys_of(&store, "t10").await, (1, 1));
    assert_eq!(ids(&registry).await, ["default", "t10"]);
}

#[tokio::test]
async fn interrupted_deletion_is_completed_by_the_next_start() {
    let (store, registry) = open();
    registry.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    let cluster = registry.cluster("t1").unwrap();
    for number in 0..150 {
        create(&cluster, &format!("m{number}"), "x").await.unwrap();
    }
    let record = store.get("cluster-records/t1").await.unwrap().entry.unwrap();
    let mut marked: Value = serde_json::from_slice(&record.value()).unwrap();
    marked["deleting"] = true.into();
    store.put(Put::new("cluster-records/t1", marked.to_string())).await.unwrap();

    let next = another(&store);
    next.refresh_clusters().await.unwrap();
    assert!(matches!(next.cluster("t1"), Err(Error::UnknownCluster { .. })));
    assert!(next.cluster_info("t1").await.unwrap().deleting);
    let taken = next.create_cluster("t1", DEFAULT_LIMITS).await;
    assert!(matches!(taken, Err(Error::ClusterExists { deleting: true, .. })));
    assert!(matches!(create(&cluster, "late", "x").await, Err(Error::UnknownCluster { .. })));
    next.open_clusters().await.unwrap();
    assert_eq!(keys_of(&store, "t1").await, (0, 0));
    assert_eq!(ids(&next).await, ["default"]);
}

#[tokio::test]
async fn servers_on_one_store_see_each_others_clusters() {
    let (store, one) = open();
    let other = another(&store);
    other.open_clusters().await.unwrap();
    one.create_cluster("t1", DEFAULT_LIMITS).await.unwrap();
    while other.find_cluster("t1").await.is_err() {
        tokio::task::yield_now().await;
    }
    let held = other.find_cluster("t1").await.unwrap();
    create(&held, "a", "1").await.unwrap();
    one.delete_cluster("t1").await.unwrap();
    assert!(matches!(create(&held, "b", "1").await, Err(Error::UnknownCluster { .. })), "at once");
    while other.find_cluster("t1").await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(held.is_deleted());
    assert_eq!(other.take_deleted_clusters(), ["t1".into()]);
    assert_eq!(keys_of(&store, "t1").await, (0, 0));
}

#[tokio::test]
async fn clusters_without_records_are_adopted_once() {
    let (store, registry) = open();
    for id in ["default", "old", "older"] {
        store.put(Put::new(format!("clusters/{id}/core/x/y"), "{}")).await.unwrap();
    }
    registry.open_clusters().await.unwrap();
    assert_eq!(ids(&registry).await, ["default", "old", "older"]);
    let adopted = registry.cluster_info("old").await.unwrap();
    assert_eq!((adopted.uid.as_str(), adopted.limits), ("", ClusterLimits::UNLIMITED));
    assert_eq!(adopted.usage.objects, 1);
    create(&registry.cluster("old").unwrap(), "a", "1").await.unwrap();
    registry.delete_cluster("old").await.unwrap();
    let next = another(&store);
    next.open_clusters().await.unwrap();
    assert_eq!(ids(&next).await, ["default", "older"]);
    assert_ne!(next.create_cluster("old", DEFAULT_LIMITS).await.unwrap().uid, "");
}

fn at_most(objects: u64) -> LimitsChange {
    LimitsChange { max_objects: Some(Some(objects)), max_bytes: None }
}

#[tokio::test]
async fn full_cluster_takes_no_more_objects_until_some_are_deleted() {
    let (_store, registry) = open();
    registry.create_cluster("t1", at_most(3)).await.unwrap();
    let cluster = registry.cluster("t1").unwrap();
    for name in ["a", "b", "c"] {
        create(&cluster, name, "x").await.unwrap();
    }
    let refused = create(&cluster, "d", "x").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cluster \"t1\" would exceed its limit of 3 objects: it stores 3 and the request adds 1; delete objects, or let \
         the operator raise the limit with coracle cluster set-limits t1"
    );
    set(&cluster, "a", &"long".repeat(100)).await.unwrap();
    delete(&cluster, "a").await;
    create(&cluster, "d", "x").await.unwrap();
    assert!(create(&cluster, "e", "x").await.is_err());
    registry.set_cluster_limits("t1", at_most(4)).await.unwrap();
    create(&registry.cluster("t1").unwrap(), "e", "x").await.unwrap();
    assert_eq!(registry.cluster_info("t1").await.unwrap().usage.objects, 4);
}

#[tokio::test]
async fn full_cluster_shrinks_and_deletes_but_does_not_grow() {
    let (_store, registry) = open();
    let limits = LimitsChange { max_bytes: Some(Some(4_000)), max_objects: None };
    registry.create_cluster("t1", limits).await.unwrap();
    let cluster = registry.cluster("t1").unwrap();
    create(&cluster, "a", &"x".repeat(2_000)).await.unwrap();
    let finalized = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.create(&write(&ConfigMap, "default"), finalized).await.unwrap();
    assert!(matches!(create(&cluster, "b", &"x".repeat(2_000)).await, Err(Error::ClusterFull { .. })));
    assert!(matches!(set(&cluster, "a", &"x".repeat(4_000)).await, Err(Error::ClusterFull { .. })));
    let full = LimitsChange { max_bytes: Some(Some(1)), max_objects: None };
    registry.set_cluster_limits("t1", full).await.unwrap();
    let cluster = registry.cluster("t1").unwrap();
    set(&cluster, "a", "short").await.unwrap();
    assert!(set(&cluster, "a", "longer").await.is_err());
    // Finalizers keep the object; it grows by the timestamp of its deletion.
    let deleted = cluster.delete(&write(&ConfigMap, "default"), "held", &DeleteOptions::default()).await;
    assert!(!deleted.unwrap().gone);
    delete(&cluster, "a").await;
}

#[tokio::test]
async fn default_cluster_is_limited_only_if_limits_are_set() {
    let (_store, registry) = open();
    let cluster = registry.cluster("default").unwrap();
    create(&cluster, "a", "x").await.unwrap();
    assert_eq!(registry.cluster_info("default").await.unwrap().limits, ClusterLimits::UNLIMITED);
    registry.set_cluster_limits("default", at_most(1)).await.unwrap();
    let cluster = registry.cluster("default").unwrap();
    assert!(matches!(create(&cluster, "b", "x").await, Err(Error::ClusterFull { .. })));
    let unlimited = LimitsChange { max_objects: Some(None), max_bytes: None };
    registry.set_cluster_limits("default", unlimited).await.unwrap();
    create(&registry.cluster("default").unwrap(), "b", "x").await.unwrap();
}

/// Bytes and objects as a scan finds them.
async fn scanned(store: &Store, id: &str) -> ClusterUsage {
    let scope = store.scope("clusters").unwrap().scope(id).unwrap();
    let range = scope.range(coracle_store::RangeRequest::default()).await.unwrap();
    let bytes = range.entries.iter().map(|entry| entry.key().len() + entry.value_len()).sum::<usize>();
    ClusterUsage { bytes: bytes as u64, objects: range.entries.len() as u64 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn usage_equals_what_is_stored_after_concurrent_writes() {
    let (store, registry) = open();
    for id in ["t1", "t2"] {
        registry.create_cluster(id, at_most(60)).await.unwrap();
    }
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let cluster = registry.cluster(if writer % 2 == 0 { "t1" } else { "t2" }).unwrap();
            coracle_base::Task::spawn("writer", async move {
                for number in 0..40 {
                    let name = format!("{writer}-{}", number % 20);
                    match create(&cluster, &name, &"x".repeat(number)).await {
                        Ok(()) if number % 3 == 0 => delete(&cluster, &name).await,
                        Ok(()) | Err(Error::ClusterFull { .. } | Error::AlreadyExists(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for id in ["t1", "t2"] {
        let stored = scanned(&store, id).await;
        assert!(stored.objects <= 60, "{id} stores {}", stored.objects);
        while registry.cluster_info(id).await.unwrap().usage != stored {
            tokio::task::yield_now().await;
        }
        let fresh = another(&store);
        assert_eq!(fresh.cluster_info(id).await.unwrap().usage, stored, "computed again");
    }
}

#[tokio::test]
async fn cycles_of_creation_and_deletion_leave_no_key_and_no_memory() {
    let (store, registry) = open();
    registry.open_clusters().await.unwrap();
    let before = store.count("", At::Latest).await.unwrap().count;
    for cycle in 0..CYCLES {
        // Some ids are reused.
        let id = format!("t{}", cycle % 700);
        registry.create_cluster(&id, DEFAULT_LIMITS).await.unwrap();
        let cluster = registry.cluster(&id).unwrap();
        for name in ["a", "b"] {
            create(&cluster, name, "x").await.unwrap();
        }
        registry.delete_cluster(&id).await.unwrap();
        for deleted in registry.take_deleted_clusters() {
            registry.forget_usage(&deleted);
        }
    }
    assert_eq!(store.count("", At::Latest).await.unwrap().count, before);
    assert_eq!(ids(&registry).await, ["default"]);
    // The watch of the records confirms the last deletions.
    while registry.held_clusters().1 > 0 {
        registry.refresh_clusters().await.unwrap();
        tokio::task::yield_now().await;
    }
    let (clusters, _, usages) = registry.held_clusters();
    assert_eq!(clusters, 0);
    assert!(usages <= 1, "that of the default cluster, which was listed: {usages}");
}
