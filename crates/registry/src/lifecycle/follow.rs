//! Reads all objects of an API group and follows their changes, for caches that are built from them.
//!
//! Changes are buffered and applied when the cache is used next. So following needs no task, and costs nothing while
//! the cache is idle.

use coracle_store::{Entry, RangeRequest, Watch, WatchEvent, WatchRequest};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;

/// A subscription to the changes of a group's objects. Dropping it ends it.
pub struct GroupWatch {
    /// Prefix of the keys of the group.
    group: String,
    watch: Watch,
}

/// Namespace and name of an object, with its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The resource, such as `roles`.
    pub plural: &'a str,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl Cluster {
    /// Calls `tell` for all objects of a group, and returns a watch of their changes since then.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn follow_group(
        &self,
        group: &str,
        tell: impl FnMut(Place<'_>, &Entry) + Send,
    ) -> Result<GroupWatch> {
        let prefix = keys::group_prefix(group);
        self.follow(prefix.clone(), prefix, tell).await
    }

    /// The same for a single kind.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn follow_kind(
        &self,
        kind: &dyn Kind,
        tell: impl FnMut(Place<'_>, &Entry) + Send,
    ) -> Result<GroupWatch> {
        let prefix = keys::prefix(kind.declaration(), "");
        let group = prefix.split_inclusive('/').next().unwrap_or_default().to_owned();
        self.follow(group, prefix, tell).await
    }

    /// The same for all keys of a group with this prefix.
    async fn follow(
        &self,
        group: String,
        prefix: String,
        mut tell: impl FnMut(Place<'_>, &Entry) + Send,
    ) -> Result<GroupWatch> {
        let request = RangeRequest { prefix: prefix.clone().into_bytes(), ..RangeRequest::default() };
        let range = self.store.range(request).await?;
        for entry in &range.entries {
            if let Some(place) = place(&group, entry.key()) {
                tell(place, entry);
            }
        }
        let request = WatchRequest::prefix(prefix.as_bytes()).from(range.revision.next());
        Ok(GroupWatch { watch: self.store.watch(request).await?, group })
    }
}

impl GroupWatch {
    /// Calls `tell` for the changes that have arrived since the last call: with the object, or none if it was
    /// deleted. Does not wait.
    ///
    /// # Errors
    /// If events were dropped because too many have arrived, or the store fails. The watch has ended then.
    pub fn arrived(&mut self, mut tell: impl FnMut(Place<'_>, Option<&Entry>)) -> Result<()> {
        while let Some(event) = self.watch.next_arrived() {
            let event = event?;
            let (key, entry) = match &event {
                WatchEvent::Put { entry, .. } => (entry.key(), Some(entry)),
                WatchEvent::Delete { key, .. } => (&**key, None),
                _ => continue,
            };
            if let Some(place) = place(&self.group, key) {
                tell(place, entry);
            }
        }
        Ok(())
    }
}

fn place<'a>(prefix: &str, key: &'a [u8]) -> Option<Place<'a>> {
    let text = std::str::from_utf8(key).ok()?;
    let mut parts = text.strip_prefix(prefix)?.splitn(3, '/');
    match (parts.next()?, parts.next()?, parts.next()) {
        (plural, name, None) => Some(Place { plural, namespace: "", name }),
        (plural, namespace, Some(name)) => Some(Place { plural, namespace, name }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Registry;
    use crate::identity::Identity;
    use crate::kind::Kind;
    use crate::kinds::rbac::cluster_role::ClusterRole;
    use crate::kinds::rbac::role::Role;
    use crate::lifecycle::{DeleteOptions, Write};

    const GROUP: &str = "rbac.authorization.k8s.io";

    fn write<'a>(kind: &'a dyn Kind, namespace: &'a str) -> Write<'a> {
        Write {
            kind,
            api_version: "rbac.authorization.k8s.io/v1",
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

    /// The first `count` changes.
    async fn arrived(watch: &mut GroupWatch, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let outcome = watch.arrived(|place, entry| {
                let Place { plural, namespace, name } = place;
                seen.push(format!("{plural} {namespace}/{name} {}", entry.is_some()));
            });
            outcome.unwrap();
            tokio::task::yield_now().await;
        }
        seen
    }

    #[tokio::test]
    async fn follow_delivers_existing_objects_and_then_changes() {
        let cluster = Registry::in_memory().cluster("default").unwrap();
        cluster.create(&write(&ClusterRole, ""), json!({"metadata": {"name": "a"}})).await.unwrap();
        let mut names = Vec::new();
        let tell = |place: Place<'_>, _: &Entry| names.push(place.name.to_owned());
        let mut watch = cluster.follow_group(GROUP, tell).await.unwrap();
        assert_eq!(names, ["a"]);
        assert_eq!(arrived(&mut watch, 0).await, [""; 0]);
        cluster.create(&write(&Role, "ns"), json!({"metadata": {"name": "b"}})).await.unwrap();
        cluster.delete(&write(&ClusterRole, ""), "a", &DeleteOptions::default()).await.unwrap();
        assert_eq!(arrived(&mut watch, 2).await, ["roles ns/b true", "clusterroles /a false"]);
    }

    #[tokio::test]
    async fn follower_that_lags_behind_compaction_gets_an_error() {
        let cluster = Registry::in_memory().cluster("default").unwrap();
        let mut watch = cluster.follow_group(GROUP, |_, _| {}).await.unwrap();
        // More than the queue of a watcher holds, so that the rest must be read from history.
        for number in 0..100 {
            let role = json!({"metadata": {"name": format!("r{number}")}});
            cluster.create(&write(&ClusterRole, ""), role).await.unwrap();
        }
        let now = cluster.store.get("x").await.unwrap().revision;
        cluster.store.compact(now).await.unwrap();
        let outcome = watch.arrived(|_, _| {});
        assert!(matches!(outcome, Err(crate::Error::Expired { .. })), "{outcome:?}");
    }
}
