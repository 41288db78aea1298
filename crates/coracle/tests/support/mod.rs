//! Helpers of tests with a running server.

use std::time::Duration;

use coracle::kube::Resource;
use coracle::kube::api::{Api, WatchParams};
use coracle::kube::core::WatchEvent;
use futures_util::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;

/// Waits until an object of this name is as `expected`, for at most `limit`.
pub(crate) async fn wait_for<K>(limit: Duration, api: &Api<K>, name: &str, expected: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = WatchParams { field_selector: Some(format!("metadata.name={name}")), ..Default::default() };
    let watching = async {
        // Without a revision a watch begins with the existing objects.
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
