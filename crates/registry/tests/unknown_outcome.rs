//! Writes whose response the store loses: each is carried out once, and its client learns that the outcome is unknown.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coracle_base::{Clock, Rng};
use coracle_registry::kinds::core::config_map::ConfigMap;
use coracle_registry::lifecycle::{Change, DeleteOptions, Write};
use coracle_registry::{Cluster, Error, Identity, Registry, StoreFailure};
use coracle_store::{
    At, BoxFuture, Committed, Count, Engine, Error as StoreError, Get, Range, RangeRequest, Result, Revision,
    Stats, Store, Txn, Watch, WatchRequest, memory,
};
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

/// A store in memory that loses the response of one commit when it is told to.
struct Lossy {
    store: Store,
    loses_next: AtomicBool,
}

impl Lossy {
    async fn commit(&self, txn: Txn) -> Result<Committed> {
        let committed = self.store.commit(txn).await?;
        if self.loses_next.swap(false, Ordering::Relaxed) {
            return Err(StoreError::OutcomeUnknown("the connection broke".to_owned()));
        }
        Ok(committed)
    }
}

impl Engine for Lossy {
    fn get<'a>(&'a self, key: &'a [u8], at: At) -> BoxFuture<'a, Result<Get>> {
        Box::pin(self.store.get_at(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range>> {
        Box::pin(self.store.range(request))
    }

    fn count<'a>(&'a self, prefix: &'a [u8], at: At) -> BoxFuture<'a, Result<Count>> {
        Box::pin(self.store.count(prefix, at))
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Committed>> {
        Box::pin(self.commit(txn))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Watch>> {
        Box::pin(self.store.watch(request))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.store.compact(revision))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.store.stats())
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.store.close())
    }

    fn writable(&self) -> Result<()> {
        self.store.writable()
    }
}

/// A cluster with the ConfigMap `a`, and its store, which loses the response of the next commit.
async fn before_loss() -> (Arc<Lossy>, Cluster, Value) {
    let store = memory::open(memory::Options::default());
    let lossy = Arc::new(Lossy { store, loses_next: AtomicBool::new(false) });
    let registry = Registry::new(Store::new(lossy.clone()), Clock::system(), Rng::seeded(1));
    let cluster = registry.cluster("default").unwrap();
    let object = json!({"metadata": {"name": "a"}, "data": {"key": "1"}});
    let created = cluster.create(&WRITE, object).await.unwrap();
    lossy.loses_next.store(true, Ordering::Relaxed);
    (lossy, cluster, serde_json::from_slice(&created.object.json).unwrap())
}

#[track_caller]
fn assert_unknown<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let failure = outcome.as_ref().err().and_then(Error::store_failure);
    assert_eq!(failure, Some(StoreFailure::OutcomeUnknown), "{outcome:?}");
}

async fn stored(cluster: &Cluster) -> Value {
    let object = cluster.get(&ConfigMap, "default", "a", None).await.unwrap();
    serde_json::from_slice(&object.json).unwrap()
}

#[tokio::test]
async fn replace_with_lost_response_is_not_rejected_because_of_itself() {
    let (_lossy, cluster, mut object) = before_loss().await;
    object["data"]["key"] = json!("2");
    assert_unknown(cluster.update(&WRITE, "a", &Change::Replace(object)).await);
    assert_eq!(stored(&cluster).await["data"]["key"], "2");
}

#[tokio::test]
async fn patch_with_lost_response_is_applied_once() {
    let (_lossy, cluster, _) = before_loss().await;
    let append = |mut object: Value| {
        let longer = format!("{}+", object["data"]["key"].as_str().unwrap());
        object["data"]["key"] = json!(longer);
        Ok(object)
    };
    assert_unknown(cluster.update(&WRITE, "a", &Change::Patch(&append)).await);
    assert_eq!(stored(&cluster).await["data"]["key"], "1+");
}

#[tokio::test]
async fn delete_with_lost_response_does_not_find_its_object_missing() {
    let (_lossy, cluster, _) = before_loss().await;
    assert_unknown(cluster.delete(&WRITE, "a", &DeleteOptions::default()).await);
    let read = cluster.get(&ConfigMap, "default", "a", None).await;
    assert!(matches!(read, Err(Error::NotFound(_))), "{read:?}");
}
