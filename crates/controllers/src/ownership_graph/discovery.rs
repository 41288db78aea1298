//! Follows every kind that can be deleted, as long as it is served.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_base::metrics::Counter;
use coracle_runtime::{
    Action, ClusterId, Controller, Dynamic, Following, Informer, Manager, ObjectKey, Reconcile, Selection,
    cluster_not_found,
};
use futures_util::future::join_all;

use super::follow::OneKind;
use super::graph::Source;
use super::{Change, Kinds, OwnershipGraph, Resource, ServedKind};
use crate::customresourcedefinition::{self, Definition};

/// The name under which its doings are logged.
const NAME: &str = "ownership-graph";

/// What something must be able to do to be followed, and to have an end.
const VERBS: &[&str] = &["delete", "list", "watch"];

/// What nobody owns and is owned by nobody, and of which there is much, as in upstream (`ignoredResources`
/// in `garbagecollector/graph_builder.go`).
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// How long to wait for the first lists. Whoever begins earlier only has more to ask.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn register(manager: &mut Manager, ownership_graph: &Arc<OwnershipGraph>) {
    let definitions = customresourcedefinition::informer(manager);
    let services = customresourcedefinition::registration::registered(manager);
    let reconcile = Discovery {
        ownership_graph: Arc::clone(ownership_graph),
        root: manager.cluster().clone(),
        definitions: definitions.clone(),
        dynamic: manager.dynamic(),
        followed: Mutex::default(),
        errors: manager.metrics().counter(
            "garbagecollector_controller_resources_sync_error_total",
            "How often it could not be found out which kinds there are, or not all of them could be listed.",
        ),
    };
    let controller = Controller::new(NAME, reconcile)
        .watches(&definitions, |change| [key(change.key.cluster())])
        .watches(&services, |change| [key(change.key.cluster())]);
    // Built-in kinds are there without any change.
    let first = controller.queue().try_add(&key(manager.cluster()));
    debug_assert!(first, "an empty queue has room");
    manager.add(controller);
}

/// What stands for all kinds of a cluster.
fn key(cluster: &ClusterId) -> ObjectKey {
    ObjectKey::cluster_wide(cluster.clone(), "kinds")
}

/// What is followed of a cluster.
type Followed = HashMap<Resource, FollowedKind>;

/// A kind that is followed in one version.
struct FollowedKind {
    version: Box<str>,
    source: Source,
    following: Following,
    ended: Arc<AtomicBool>,
}

struct Discovery {
    ownership_graph: Arc<OwnershipGraph>,
    /// The cluster that is followed, or what stands for all.
    root: ClusterId,
    definitions: Informer<Definition>,
    dynamic: Dynamic,
    followed: Mutex<BTreeMap<ClusterId, Followed>>,
    errors: Arc<Counter>,
}

/// What is to be followed from now on, and what not any more.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    begin: Vec<Arc<ServedKind>>,
    end: Vec<Resource>,
}

/// If all clusters are followed, what they have in common is followed once; what definitions bring to a
/// cluster, only there.
enum Which {
    All,
    AllBut(HashSet<Resource>),
    Only(HashSet<Resource>),
}

impl Which {
    fn contains(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::AllBut(others) => !others.contains(resource),
            Self::Only(these) => these.contains(resource),
        }
    }
}

/// `followed` says which version of what is followed.
fn plan(kinds: &Kinds, which: &Which, followed: &HashMap<Resource, Box<str>>) -> Plan {
    let wanted: HashMap<Resource, &Arc<ServedKind>> = kinds
        .preferred()
        .filter(|kind| kind.can(VERBS) && !IGNORED.contains(&(&*kind.group, &*kind.plural)))
        .map(|kind| (Resource::of(kind), kind))
        .filter(|(resource, _)| which.contains(resource))
        .collect();
    let begins = |resource: &Resource, kind: &ServedKind| followed.get(resource) != Some(&kind.version);
    let mut begin: Vec<_> = wanted
        .iter()
        .filter(|(resource, kind)| begins(resource, kind))
        .map(|(_, kind)| Arc::clone(kind))
        .collect();
    begin.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    // What cannot be asked at present may still be there.
    let ends = |resource: &&Resource| !wanted.contains_key(*resource) && !kinds.is_stale(&resource.group);
    Plan { begin, end: followed.keys().filter(ends).cloned().collect() }
}

impl Reconcile for Discovery {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let cluster = key.cluster();
        let kinds = match self.ownership_graph.refresh_kinds(cluster).await {
            // A deleted cluster serves no kinds, so that none is followed any more.
            Err(error) if cluster_not_found(&error) => Arc::default(),
            kinds => kinds.inspect_err(|_| self.errors.inc())?,
        };
        self.follow(cluster, &kinds, self.which(cluster));
        self.ownership_graph.with(cluster, |known| known.graph.mark_unseen());
        self.ownership_graph.hand_over(cluster).await;
        self.ownership_graph.announce(&Change::Kinds(cluster.clone())).await;
        if *cluster == self.root && !*self.ownership_graph.ready.borrow() {
            self.first_lists(cluster).await;
            self.ownership_graph.ready.send_replace(true);
        }
        Ok(Action::AwaitChange)
    }
}

impl Discovery {
    /// Which kinds are followed in a cluster.
    fn which(&self, cluster: &ClusterId) -> Which {
        if self.ownership_graph.all_clusters.is_none() {
            return Which::All;
        }
        let of_all = cluster.is_all_clusters();
        let plain = ClusterId::default();
        let definitions = self.definitions.store().in_cluster(if of_all { &plain } else { cluster });
        let custom = definitions.iter().map(|one| Resource::defined(&one.spec.group, &one.spec.names.plural));
        if of_all { Which::AllBut(custom.collect()) } else { Which::Only(custom.collect()) }
    }

    fn follow(&self, cluster: &ClusterId, kinds: &Kinds, which: Which) {
        let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let followed = all.entry(cluster.clone()).or_default();
        let versions = followed.iter().map(|(resource, kind)| (resource.clone(), kind.version.clone()));
        let plan = plan(kinds, &which, &versions.collect());
        for kind in plan.end.iter().filter_map(|resource| followed.remove(resource)) {
            for cluster in self.ownership_graph.clusters_of(cluster) {
                self.ownership_graph.with(&cluster, |known| {
                    kind.ended.store(true, Ordering::Relaxed);
                    known.graph.forget(kind.source);
                });
            }
            self.ownership_graph.with(cluster, |known| known.listed.remove(&kind.source));
        }
        for kind in plan.begin {
            let (source, ended) = (self.ownership_graph.source(&kind), Arc::<AtomicBool>::default());
            let ownership_graph = Arc::clone(&self.ownership_graph);
            let consumer = OneKind::new(ownership_graph, cluster.clone(), source, &kind, Arc::clone(&ended));
            let selection = Selection::at(&kind.path()).metadata_only();
            let following = self.dynamic.follow(cluster.clone(), selection, consumer);
            let version = kind.version.clone();
            followed.insert(Resource::of(&kind), FollowedKind { version, source, following, ended });
        }
        if followed.is_empty() {
            all.remove(cluster);
        }
    }

    /// Waits until all that was there has been seen, as far as it can be.
    async fn first_lists(&self, cluster: &ClusterId) {
        let attempted: Vec<_> = {
            let all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(cluster).into_iter().flatten().map(|(_, kind)| kind.following.attempted()).collect()
        };
        if tokio::time::timeout(SYNC_TIMEOUT, join_all(attempted)).await.is_err() {
            self.errors.inc();
            tracing::debug!("some kinds take long to list; what they own is asked for one by one");
        }
    }
}

impl Resource {
    /// The one that a kind is a version of.
    pub(crate) fn of(kind: &ServedKind) -> Self {
        Self { group: kind.group.clone(), plural: kind.plural.clone() }
    }

    fn defined(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl OwnershipGraph {
    /// The number of a kind; the same in all clusters.
    fn source(&self, kind: &ServedKind) -> Source {
        let resource = Resource::of(kind);
        let mut sources = self.sources();
        let known = sources.iter().position(|known| *known == resource);
        let index = known.unwrap_or_else(|| {
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
    fn what_can_be_deleted_is_followed_while_it_is_served() {
        let served = kinds("v1", "Current", &[resource("boats", VERBS), resource("reviews", &["create"])]);
        let plan = |kinds: &Kinds, followed: &HashMap<_, _>| plan(kinds, &Which::All, followed);
        let first = plan(&served, &HashMap::new());
        assert_eq!(first.begin.iter().map(|kind| &*kind.plural).collect::<Vec<_>>(), ["boats"]);
        let followed = HashMap::from([(boats(), "v1".into())]);
        assert_eq!(plan(&served, &followed), Plan::default());
        assert_eq!(plan(&kinds("v1", "Current", &[]), &followed).end, [boats()]);
        assert_eq!(plan(&kinds("v1", "Stale", &[]), &followed), Plan::default());
        let other = plan(&kinds("v2", "Current", &[resource("boats", VERBS)]), &followed);
        assert_eq!((other.begin.len(), other.end.len()), (1, 0), "in another version");
    }

    #[test]
    fn what_definitions_bring_is_followed_where_they_are() {
        let served = kinds("v1", "Current", &[resource("boats", VERBS), resource("oars", VERBS)]);
        let plurals = |which: &Which| {
            let begin = plan(&served, which, &HashMap::new()).begin;
            begin.iter().map(|kind| kind.plural.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(plurals(&Which::AllBut(HashSet::from([boats()]))), ["oars"]);
        assert_eq!(plurals(&Which::Only(HashSet::from([boats()]))), ["boats"]);
    }
}
