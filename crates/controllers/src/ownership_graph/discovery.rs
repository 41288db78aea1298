//! Watches every deletable kind as long as it is served.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_base::metrics::Counter;
use coracle_runtime::{
    Action, ClusterId, Controller, DynamicReflectors, Informer, Manager, ObjectKey, Reconcile,
    ReflectorHandle, Selection, cluster_not_found,
};
use futures_util::future::join_all;

use super::consumer::KindConsumer;
use super::graph::Source;
use super::{Change, Kinds, OwnershipGraph, Resource, ServedKind};
use crate::customresourcedefinition::{self, Definition};

/// Name of the controller in logs and metrics.
const NAME: &str = "ownership-graph";

/// Verbs that a kind must support to be watched.
const VERBS: &[&str] = &["delete", "list", "watch"];

/// Kinds without owners and dependents and with many objects, as in Kubernetes (`ignoredResources` in
/// `garbagecollector/graph_builder.go`).
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// How long to wait for the initial lists. Starting earlier only causes more requests of the collector.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn register(manager: &mut Manager, ownership_graph: &Arc<OwnershipGraph>) {
    let definitions = customresourcedefinition::informer(manager);
    let services = customresourcedefinition::registration::registered(manager);
    let reconcile = Discovery {
        ownership_graph: Arc::clone(ownership_graph),
        root: manager.cluster().clone(),
        definitions: definitions.clone(),
        dynamic: manager.dynamic(),
        watched: Mutex::default(),
        errors: manager.metrics().counter(
            "garbagecollector_controller_resources_sync_error_total",
            "Failures to discover the served kinds, or to list all of them.",
        ),
    };
    let controller = Controller::new(NAME, reconcile)
        .watches(&definitions, |change| [key(change.key.cluster())])
        .watches(&services, |change| [key(change.key.cluster())]);
    // Built-in kinds exist without any event.
    let first = controller.queue().try_add(&key(manager.cluster()));
    debug_assert!(first, "an empty queue has room");
    manager.add(controller);
}

/// Key that stands for all kinds of a cluster.
fn key(cluster: &ClusterId) -> ObjectKey {
    ObjectKey::cluster_wide(cluster.clone(), "kinds")
}

/// Kinds that are watched in a cluster.
type WatchedKinds = HashMap<Resource, WatchedKind>;

/// A kind that is watched in one version.
struct WatchedKind {
    version: Box<str>,
    source: Source,
    watch: ReflectorHandle,
    ended: Arc<AtomicBool>,
}

struct Discovery {
    ownership_graph: Arc<OwnershipGraph>,
    /// The watched cluster, or the wildcard for all clusters.
    root: ClusterId,
    definitions: Informer<Definition>,
    dynamic: DynamicReflectors,
    watched: Mutex<BTreeMap<ClusterId, WatchedKinds>>,
    errors: Arc<Counter>,
}

/// Kinds to start and stop watching.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    start: Vec<Arc<ServedKind>>,
    stop: Vec<Resource>,
}

/// With one watch for all clusters, kinds that all clusters serve are watched once, and kinds of a
/// CustomResourceDefinition only in their cluster.
enum KindFilter {
    All,
    AllBut(HashSet<Resource>),
    Only(HashSet<Resource>),
}

impl KindFilter {
    fn contains(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::AllBut(others) => !others.contains(resource),
            Self::Only(these) => these.contains(resource),
        }
    }
}

/// Plans the watches; `watched` holds the versions watched now.
fn plan(kinds: &Kinds, filter: &KindFilter, watched: &HashMap<Resource, Box<str>>) -> Plan {
    let wanted: HashMap<Resource, &Arc<ServedKind>> = kinds
        .preferred()
        .filter(|kind| kind.can(VERBS) && !IGNORED.contains(&(&*kind.group, &*kind.plural)))
        .map(|kind| (Resource::of(kind), kind))
        .filter(|(resource, _)| filter.contains(resource))
        .collect();
    let must_start = |resource: &Resource, kind: &ServedKind| watched.get(resource) != Some(&kind.version);
    let mut start: Vec<_> = wanted
        .iter()
        .filter(|(resource, kind)| must_start(resource, kind))
        .map(|(_, kind)| Arc::clone(kind))
        .collect();
    start.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    // Kinds of an API server that does not answer may still exist.
    let must_stop =
        |resource: &&Resource| !wanted.contains_key(*resource) && !kinds.is_stale(&resource.group);
    Plan { start, stop: watched.keys().filter(must_stop).cloned().collect() }
}

impl Reconcile for Discovery {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let cluster = key.cluster();
        let kinds = match self.ownership_graph.refresh_kinds(cluster).await {
            // A deleted cluster serves no kinds, so that all its watches stop.
            Err(error) if cluster_not_found(&error) => Arc::default(),
            kinds => kinds.inspect_err(|_| self.errors.inc())?,
        };
        self.watch_kinds(cluster, &kinds, self.filter(cluster));
        self.ownership_graph.with(cluster, |state| state.graph.mark_unseen());
        self.ownership_graph.enqueue_dirty(cluster).await;
        self.ownership_graph.announce(&Change::Kinds(cluster.clone())).await;
        if *cluster == self.root && !*self.ownership_graph.ready.borrow() {
            self.wait_for_initial_lists(cluster).await;
            self.ownership_graph.ready.send_replace(true);
        }
        Ok(Action::AwaitChange)
    }
}

impl Discovery {
    /// The kinds to watch in a cluster.
    fn filter(&self, cluster: &ClusterId) -> KindFilter {
        if self.ownership_graph.all_clusters.is_none() {
            return KindFilter::All;
        }
        let of_all = cluster.is_all_clusters();
        let plain = ClusterId::default();
        let definitions = self.definitions.store().in_cluster(if of_all { &plain } else { cluster });
        let custom = definitions.iter().map(|one| Resource::defined(&one.spec.group, &one.spec.names.plural));
        if of_all { KindFilter::AllBut(custom.collect()) } else { KindFilter::Only(custom.collect()) }
    }

    fn watch_kinds(&self, cluster: &ClusterId, kinds: &Kinds, filter: KindFilter) {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = all.entry(cluster.clone()).or_default();
        let versions = watched.iter().map(|(resource, kind)| (resource.clone(), kind.version.clone()));
        let plan = plan(kinds, &filter, &versions.collect());
        for kind in plan.stop.iter().filter_map(|resource| watched.remove(resource)) {
            for cluster in self.ownership_graph.clusters_of(cluster) {
                self.ownership_graph.with(&cluster, |state| {
                    kind.ended.store(true, Ordering::Relaxed);
                    state.graph.forget(kind.source);
                });
            }
            self.ownership_graph.with(cluster, |state| state.listed.remove(&kind.source));
        }
        for kind in plan.start {
            let (source, ended) = (self.ownership_graph.source(&kind), Arc::<AtomicBool>::default());
            let ownership_graph = Arc::clone(&self.ownership_graph);
            let consumer =
                KindConsumer::new(ownership_graph, cluster.clone(), source, &kind, Arc::clone(&ended));
            let selection = Selection::at(&kind.path()).metadata_only();
            let watch = self.dynamic.follow(cluster.clone(), selection, consumer);
            let version = kind.version.clone();
            watched.insert(Resource::of(&kind), WatchedKind { version, source, watch, ended });
        }
        if watched.is_empty() {
            all.remove(cluster);
        }
    }

    /// Waits until the initial lists are complete, as far as possible.
    async fn wait_for_initial_lists(&self, cluster: &ClusterId) {
        let attempted: Vec<_> = {
            let all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(cluster).into_iter().flatten().map(|(_, kind)| kind.watch.attempted()).collect()
        };
        if tokio::time::timeout(SYNC_TIMEOUT, join_all(attempted)).await.is_err() {
            self.errors.inc();
            tracing::debug!("initial lists are incomplete; looking up owners of these kinds one by one");
        }
    }
}

impl Resource {
    /// The resource of a kind, without its version.
    pub(crate) fn of(kind: &ServedKind) -> Self {
        Self { group: kind.group.clone(), plural: kind.plural.clone() }
    }

    fn defined(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl OwnershipGraph {
    /// Number of a kind; the same in all clusters.
    fn source(&self, kind: &ServedKind) -> Source {
        let resource = Resource::of(kind);
        let mut sources = self.sources();
        let state = sources.iter().position(|state| *state == resource);
        let index = state.unwrap_or_else(|| {
            sources.push(resource);
            sources.len() - 1
        });
        Source(u32::try_from(index).unwrap_or(u32::MAX - 1))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(plural: &str, verbs: &[&str]) -> Value {
        json!({"resource": plural, "responseKind": {"kind": "X"}, "scope": "Namespaced", "verbs": verbs})
    }

    fn kinds(version: &str, freshness: &str, resources: &[Value]) -> Kinds {
        Kinds::of(json!({"items": [
            {"metadata": {"name": "example.org"}, "versions": [
                {"version": version, "freshness": freshness, "resources": resources},
            ]},
            {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("events", VERBS)]}]},
        ]}))
    }

    fn boats() -> Resource {
        Resource { group: "example.org".into(), plural: "boats".into() }
    }

    #[test]
    fn deletable_kinds_are_watched_while_served() {
        let served = kinds("v1", "Current", &[resource("boats", VERBS), resource("reviews", &["create"])]);
        let plan = |kinds: &Kinds, watched: &HashMap<_, _>| plan(kinds, &KindFilter::All, watched);
        let first = plan(&served, &HashMap::new());
        assert_eq!(first.start.iter().map(|kind| &*kind.plural).collect::<Vec<_>>(), ["boats"]);
        let watched = HashMap::from([(boats(), "v1".into())]);
        assert_eq!(plan(&served, &watched), Plan::default());
        assert_eq!(plan(&kinds("v1", "Current", &[]), &watched).stop, [boats()]);
        assert_eq!(plan(&kinds("v1", "Stale", &[]), &watched), Plan::default());
        let other = plan(&kinds("v2", "Current", &[resource("boats", VERBS)]), &watched);
        assert_eq!((other.start.len(), other.stop.len()), (1, 0), "in another version");
    }

    #[test]
    fn custom_kinds_are_watched_in_their_cluster() {
        let served = kinds("v1", "Current", &[resource("boats", VERBS), resource("oars", VERBS)]);
        let plurals = |filter: &KindFilter| {
            let start = plan(&served, filter, &HashMap::new()).start;
            start.iter().map(|kind| kind.plural.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(plurals(&KindFilter::AllBut(HashSet::from([boats()]))), ["oars"]);
        assert_eq!(plurals(&KindFilter::Only(HashSet::from([boats()]))), ["boats"]);
    }
}
