//! Deletion of namespaces deletes their objects, however short-lived the namespace is.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use coracle::kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use coracle::kube::{Client, Resource, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

/// Number of namespaces that are created and deleted, one after the other.
const ROUNDS: usize = 48;

/// Number of clients that create objects in each.
const WRITERS: usize = 4;

async fn start(dir: &Path, store: StoreConfig, controllers: bool) -> Handle {
    let listen = Vec::new();
    let config = Config { store, listen, controllers, scheduler: controllers, ..Config::new(dir) };
    Coracle::start(config).await.unwrap()
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

async fn create_namespace(client: &Client, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

/// The objects of a kind whose namespace does not exist.
async fn orphans<K>(client: &Client) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let namespaces = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let known: BTreeSet<String> = namespaces.iter().map(ResourceExt::name_any).collect();
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let is_orphan = |one: &&K| !known.contains(&one.namespace().unwrap_or_default());
    all.iter()
        .filter(is_orphan)
        .map(|one| format!("{}/{}", one.namespace().unwrap(), one.name_any()))
        .collect()
}

/// Creates objects in a namespace until the server rejects one.
async fn create_until_rejected(client: &Client, namespace: &str, writer: usize) -> FirstRejection {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    for number in 0.. {
        let map = json!({"metadata": {"name": format!("m{writer}-{number}")}});
        match maps.create(&PostParams::default(), &object(map)).await {
            Ok(_) => {}
            Err(coracle::kube::Error::Api(status)) => return FirstRejection { number, code: status.code },
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("it goes on until it is refused")
}

/// The result of [`create_until_rejected`].
struct FirstRejection {
    number: usize,
    code: u16,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn namespace_deleted_while_objects_are_created_leaves_none_behind() {
    let dir = tempfile::tempdir().unwrap();
    // On disk, where a commit takes long enough for a namespace to be deleted meanwhile.
    let cluster = start(dir.path(), StoreConfig::Disk, true).await;
    let client = cluster.client();
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let mut created = 0;
    for round in 0..ROUNDS {
        let name = format!("short-{round}");
        create_namespace(&client, &name).await;
        let jobs = Api::<Job>::namespaced(client.clone(), &name);
        let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 3, "template": template}});
        jobs.create(&PostParams::default(), &object(job)).await.unwrap();
        let writers = join_all((0..WRITERS).map(|writer| create_until_rejected(&client, &name, writer)));
        let deletion = async {
            // Gives the controllers time to act on the Job, more with each round.
            for _ in 0..round % 12 {
                let pods = Api::<Pod>::namespaced(client.clone(), &name);
                pods.list(&ListParams::default()).await.unwrap();
            }
            Api::<Namespace>::all(client.clone()).delete(&name, &DeleteParams::default()).await.unwrap();
        };
        let (rejected, ()) = tokio::join!(writers, deletion);
        assert!(rejected.iter().all(|rejected| matches!(rejected.code, 403 | 404)));
        created += rejected.iter().map(|rejected| rejected.number).sum::<usize>();
    }
    assert!(created > 0, "no object was created before its namespace was deleted");
    idle(&cluster).await;
    // At once: nothing is left that would have to be found and deleted later.
    assert_eq!(orphans::<Pod>(&client).await, [""; 0]);
    assert_eq!(orphans::<Job>(&client).await, [""; 0]);
    assert_eq!(orphans::<ConfigMap>(&client).await, [""; 0]);
    assert_eq!(orphans::<ServiceAccount>(&client).await, [""; 0]);
    let namespaces = Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert!(namespaces.iter().all(|one| !one.name_any().starts_with("short-")), "all namespaces are deleted");
    cluster.shutdown().await;
}

/// Waits until no object of this name exists.
async fn wait_until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    let gone = async {
        let list = api.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await.unwrap();
        if list.items.is_empty() {
            return;
        }
        let version = list.metadata.resource_version.unwrap();
        let mut events = api.watch(&params, &version).await.unwrap().boxed();
        while let Some(event) = events.try_next().await.unwrap() {
            if matches!(event, WatchEvent::Deleted(_)) {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, gone).await.unwrap_or_else(|_| panic!("{name} is still there"));
}

/// Leaves objects in a deleted namespace, as servers did whose creates were not bound to their namespace.
async fn leave_orphans(client: &Client) {
    create_namespace(client, "gone").await;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "gone");
    let account = json!({"metadata": {"name": "default"}});
    accounts.create(&PostParams::default(), &object(account)).await.unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), "gone");
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    pods.create(&PostParams::default(), &object(pod)).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "gone");
    for (name, finalizers) in [("plain", json!([])), ("held", json!(["example.org/hold"]))] {
        let map = json!({"metadata": {"name": name, "finalizers": finalizers}});
        maps.create(&PostParams::default(), &object(map)).await.unwrap();
    }
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    let mut namespace = namespaces.get("gone").await.unwrap();
    namespace.spec.as_mut().unwrap().finalizers = Some(Vec::new());
    namespaces.replace_subresource("finalize", "gone", &PostParams::default(), &namespace).await.unwrap();
    assert!(namespaces.get_opt("gone").await.unwrap().is_none());
}

#[tokio::test]
async fn objects_of_a_missing_namespace_are_deleted_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let before = start(dir.path(), StoreConfig::Disk, false).await;
    leave_orphans(&before.client()).await;
    before.shutdown().await;

    let cluster = start(dir.path(), StoreConfig::Disk, true).await;
    let client = cluster.client();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "gone");
    wait_until_gone(&maps, "plain").await;
    wait_until_gone(&Api::<Pod>::namespaced(client.clone(), "gone"), "p").await;
    // This one has a finalizer, which can be removed although its namespace is gone.
    idle(&cluster).await;
    assert!(maps.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    let let_go = json!({"metadata": {"finalizers": null}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(let_go)).await.unwrap();
    assert_eq!(orphans::<ConfigMap>(&client).await, [""; 0]);
    assert_eq!(orphans::<Pod>(&client).await, [""; 0]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn pod_of_a_missing_namespace_can_be_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = start(dir.path(), StoreConfig::Memory, false).await;
    let client = cluster.client();
    leave_orphans(&client).await;
    let pods = Api::<Pod>::namespaced(client.clone(), "gone");
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get("p").await.unwrap().metadata.deletion_timestamp.is_some(), "held by its finalizer");
    let let_go = json!({"metadata": {"finalizers": null}});
    pods.patch("p", &PatchParams::default(), &Patch::Merge(let_go)).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    cluster.shutdown().await;
}
