//! What several tests of a running cluster need.

use std::time::Duration;

use coracle::kube::Resource;
use coracle::kube::api::{Api, WatchParams};
use coracle::kube::core::WatchEvent;
use futures_util::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;

/// Waits for an object of this name that is as `expected` says, but no longer than `limit`.
pub(crate) async fn wait_for<K>(limit: Duration, api: &Api<K>, name: &str, expected: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = WatchParams { field_selector: Some(format!("metadata.name={name}")), ..Default::default() };
    let watching = async {
        // Without a revision a watch begins with what is there.
        let mut events = api.watch(&params, "").await.unwrap().boxed();
        while let Some(event) = events.try_next().await.unwrap() {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && expected(&object)
            {
                return object;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(limit, watching).await.unwrap_or_else(|_| panic!("no {name} came"))
}
