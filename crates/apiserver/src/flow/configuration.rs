//! The FlowSchemas and PriorityLevelConfigurations of a cluster, ready to classify requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use coracle_registry::kinds::flowcontrol::{flow_schema, priority_level_configuration};
use coracle_registry::lifecycle::Place;
use coracle_registry::{Cluster, Result};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::flow_schema::FlowSchema;
use super::level_series::LevelSeries;
use super::object_stats::ObjectStats;
use super::priority_level::{CATCH_ALL, EXEMPT, PriorityLevel};
use super::series::FlowSeries;
use crate::authorization::Attributes;
use crate::cluster_cache::{ObjectCache, ObjectIndex, Source};
use crate::identity::Caller;

/// Priority levels of a cluster. Each has at least one seat, so further ones would take more than the cluster's part.
/// FlowSchemas that refer to levels beyond it, in the order of their names, are ignored like those without a level.
const MAX_LEVELS: usize = 64;

/// FlowSchemas of a cluster. Each request is compared with all of them, before it has a seat. FlowSchemas beyond the
/// limit, in the order of precedence, are ignored.
const MAX_FLOW_SCHEMAS: usize = 1024;

/// Headers of responses, as in kube-apiserver (`ResponseHeaderMatchedFlowSchemaUID` of k8s.io/api/flowcontrol).
const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Orders the configurations of a process by age.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The flow control of one cluster: its objects, and its metrics.
pub(super) struct ClusterFlow {
    pub(super) id: Arc<str>,
    /// Number and size of the objects of the cluster.
    pub(super) stats: ObjectStats,
    objects: ObjectCache<FlowObjects>,
    current: RwLock<Arc<FlowConfig>>,
}

/// A consistent set of schemas and levels.
#[derive(Default)]
pub(super) struct FlowConfig {
    /// Higher for newer ones.
    pub(super) generation: u64,
    /// In the order in which they are tried.
    flows: Vec<Arc<Flow>>,
    /// In the order of their names.
    pub(super) levels: Vec<Arc<PriorityLevel>>,
    /// The metrics of the levels, in the same order. Shared with the configuration before, so that they go on.
    level_series: Vec<Arc<LevelSeries>>,
    pub(super) share_sum: u64,
}

/// A FlowSchema and its level.
pub(super) struct Flow {
    pub(super) schema: Arc<FlowSchema>,
    pub(super) level: Arc<PriorityLevel>,
    /// Shared with the configuration before, so that metrics go on.
    pub(super) series: Arc<FlowSeries>,
    headers: PfHeaders,
}

/// The uids of the schema and the level that matched a request, for its response.
#[derive(Clone)]
pub(crate) struct PfHeaders {
    flow_schema_uid: HeaderValue,
    priority_level_uid: HeaderValue,
}

/// The stored objects, parsed.
struct FlowObjects {
    schemas: BTreeMap<Box<str>, Arc<FlowSchema>>,
    levels: BTreeMap<Box<str>, Arc<PriorityLevel>>,
    /// True if they have changed since the configuration was built.
    is_changed: AtomicBool,
}

impl Default for FlowObjects {
    fn default() -> Self {
        Self { schemas: BTreeMap::new(), levels: BTreeMap::new(), is_changed: AtomicBool::new(true) }
    }
}

impl ObjectIndex for FlowObjects {
    const SOURCES: &'static [Source] = &[Source::Group("flowcontrol.apiserver.k8s.io")];

    fn note(&mut self, place: Place<'_>, object: Option<&Value>) {
        match place.plural {
            "flowschemas" => put(&mut self.schemas, place.name, object.map(FlowSchema::parse)),
            "prioritylevelconfigurations" => {
                put(&mut self.levels, place.name, object.and_then(PriorityLevel::parse));
            }
            _ => return,
        }
        *self.is_changed.get_mut() = true;
    }
}

fn put<T>(objects: &mut BTreeMap<Box<str>, Arc<T>>, name: &str, object: Option<T>) {
    match object {
        Some(object) => drop(objects.insert(name.into(), Arc::new(object))),
        None => drop(objects.remove(name)),
    }
}

impl ClusterFlow {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            stats: ObjectStats::default(),
            objects: ObjectCache::default(),
            current: RwLock::default(),
        }
    }

    /// The configuration, with every change that the store has published.
    pub(super) async fn refresh(&self, cluster: &Cluster) -> Result<Arc<FlowConfig>> {
        self.objects.refresh(cluster).await?;
        Ok(self.build())
    }

    /// The configuration, with the changes that have arrived. Does not wait.
    pub(super) fn catch_up(&self) -> Arc<FlowConfig> {
        self.objects.catch_up();
        self.build()
    }

    fn build(&self) -> Arc<FlowConfig> {
        self.objects.read(|objects| {
            if !objects.is_changed.load(Ordering::Acquire) {
                return self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
            }
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            if objects.is_changed.load(Ordering::Acquire) {
                *current = Arc::new(FlowConfig::build(objects, &current));
                objects.is_changed.store(false, Ordering::Release);
            }
            current.clone()
        })
    }
}

impl FlowConfig {
    fn build(objects: &FlowObjects, before: &Self) -> Self {
        let levels = with_mandatory_levels(&objects.levels);
        let flows = flows(&objects.schemas, &levels, before);
        let share_sum = levels.values().map(|level| level.shares.nominal).sum();
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed) + 1;
        let level_series = levels.keys().map(|name| before.level_series(name)).collect();
        Self { generation, flows, levels: levels.into_values().collect(), level_series, share_sum }
    }

    /// The metrics of a level, new ones for a level that it lacks.
    pub(super) fn level_series(&self, name: &str) -> Arc<LevelSeries> {
        let index = self.levels.iter().position(|level| *level.name == *name);
        index.and_then(|index| self.level_series.get(index)).cloned().unwrap_or_default()
    }

    /// The flow of a request: the first schema that matches.
    ///
    /// A schema of the level `exempt` matches only the operator of the server, whatever its rules say: the objects
    /// belong to the cluster, and their authors must not be able to evade the limits of the server.
    pub(super) fn classify(&self, caller: &Caller, attributes: &Attributes<'_>) -> Option<&Arc<Flow>> {
        let matches = |flow: &&Arc<Flow>| {
            (caller.all_clusters || !flow.level.is_exempt())
                && flow.schema.matches(&caller.identity, attributes)
        };
        self.flows.iter().find(matches).or_else(|| self.catch_all())
    }

    /// The flow of requests that no schema matches: those of users without any group.
    fn catch_all(&self) -> Option<&Arc<Flow>> {
        self.flows.iter().rfind(|flow| *flow.schema.name == *CATCH_ALL)
    }

    pub(super) fn flows(&self) -> &[Arc<Flow>] {
        &self.flows
    }
}

/// The levels, and those that must exist: a client may have deleted them, and nothing has made them again yet.
fn with_mandatory_levels(
    stored: &BTreeMap<Box<str>, Arc<PriorityLevel>>,
) -> BTreeMap<Box<str>, Arc<PriorityLevel>> {
    let is_mandatory = |name: &str| name == EXEMPT || name == CATCH_ALL;
    let others = stored.iter().filter(|(name, _)| !is_mandatory(name)).take(MAX_LEVELS);
    let mut levels: BTreeMap<_, _> = others.map(|(name, level)| (name.clone(), level.clone())).collect();
    for name in [EXEMPT, CATCH_ALL] {
        let imagined = || {
            let spec = priority_level_configuration::mandatory_spec(name)?;
            PriorityLevel::parse(&json!({"metadata": {"name": name}, "spec": spec})).map(Arc::new)
        };
        if let Some(level) = stored.get(name).cloned().or_else(imagined) {
            levels.insert(name.into(), level);
        }
    }
    levels
}

/// The schemas that have a level, and those that must exist, in the order in which they are tried.
fn flows(
    stored: &BTreeMap<Box<str>, Arc<FlowSchema>>,
    levels: &BTreeMap<Box<str>, Arc<PriorityLevel>>,
    before: &FlowConfig,
) -> Vec<Arc<Flow>> {
    let mut schemas: Vec<Arc<FlowSchema>> = stored.values().cloned().collect();
    for name in [EXEMPT, CATCH_ALL].into_iter().filter(|name| !stored.contains_key(*name)) {
        if let Some(spec) = flow_schema::mandatory_spec(name) {
            schemas.push(Arc::new(FlowSchema::parse(&json!({"metadata": {"name": name}, "spec": spec}))));
        }
    }
    schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    let mut tried = 0;
    schemas.retain(|schema| {
        tried += 1;
        tried <= MAX_FLOW_SCHEMAS || matches!(&*schema.name, EXEMPT | CATCH_ALL)
    });
    let known: HashMap<(&str, &str), &Arc<FlowSeries>> =
        before.flows.iter().map(|flow| ((&*flow.schema.name, &*flow.level.name), &flow.series)).collect();
    let with_level = schemas.into_iter().filter_map(|schema| {
        let level = levels.get(&schema.level)?.clone();
        let series = known.get(&(&*schema.name, &*level.name)).map(|&series| series.clone());
        let headers = PfHeaders::new(&schema, &level);
        Some(Arc::new(Flow { schema, level, series: series.unwrap_or_default(), headers }))
    });
    with_level.collect()
}

impl Flow {
    pub(super) fn headers(&self) -> PfHeaders {
        self.headers.clone()
    }
}

impl PfHeaders {
    fn new(schema: &FlowSchema, level: &PriorityLevel) -> Self {
        // The server makes uids, so they are always valid header values.
        let value = |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
        Self { flow_schema_uid: value(&schema.uid), priority_level_uid: value(&level.uid) }
    }

    /// Adds them to the headers of a response. Objects that are not stored have no uid and no header.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        let both = [(FLOW_SCHEMA_UID, self.flow_schema_uid), (PRIORITY_LEVEL_UID, self.priority_level_uid)];
        for (name, value) in both.into_iter().filter(|(_, value)| !value.is_empty()) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
impl ClusterFlow {
    /// Replaces the objects of the cluster by these, as a watch of the store would.
    pub(super) fn replace(&self, objects: &[Value]) -> Arc<FlowConfig> {
        let mut parsed = FlowObjects::default();
        for object in objects {
            let is_schema = object.pointer("/spec/priorityLevelConfiguration").is_some();
            let plural = if is_schema { "flowschemas" } else { "prioritylevelconfigurations" };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            parsed.note(Place { plural, namespace: "", name }, Some(object));
        }
        self.objects.replace(parsed);
        self.build()
    }

    pub(super) fn current(&self) -> Arc<FlowConfig> {
        self.build()
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::Identity;

    use super::super::testing::{caller, level, schema};
    use super::*;
    use crate::request_info::RequestInfo;

    fn names(config: &FlowConfig) -> Vec<&str> {
        config.flows().iter().map(|flow| &*flow.schema.name).collect()
    }

    fn classified(config: &FlowConfig, caller: &Caller) -> String {
        let info = RequestInfo::new(&http::Method::GET, &"/version".parse().unwrap());
        config.classify(caller, &info.attributes()).unwrap().schema.name.to_string()
    }

    #[test]
    fn schemas_are_tried_by_precedence_and_name() {
        let objects = [
            level("l", 1, None),
            schema("b", 5, "l", "*"),
            schema("a", 5, "l", "*"),
            schema("c", 4, "l", "*"),
        ];
        let config = ClusterFlow::new("c").replace(&objects);
        assert_eq!(names(&config), ["exempt", "c", "a", "b", "catch-all"]);
        assert_eq!(classified(&config, &caller("u", false)), "c");
    }

    #[test]
    fn schema_without_level_is_ignored() {
        let config = ClusterFlow::new("c").replace(&[schema("a", 5, "missing", "*")]);
        assert_eq!(names(&config), ["exempt", "catch-all"]);
        assert_eq!(config.share_sum, 5);
        let nobody = Caller { identity: Arc::new(Identity::default()), all_clusters: false };
        assert_eq!(classified(&config, &nobody), "catch-all");
    }

    #[test]
    fn exempt_level_is_for_the_operator_only() {
        let objects = [level("l", 1, None), schema("mine", 5, "exempt", "*"), schema("next", 6, "l", "*")];
        let config = ClusterFlow::new("c").replace(&objects);
        assert_eq!(classified(&config, &caller("u", false)), "next");
        assert_eq!(classified(&config, &caller("u", true)), "mine");
    }

    #[test]
    fn metrics_go_on_when_the_configuration_changes() {
        let cluster = ClusterFlow::new("c");
        let objects = |precedence| [level("l", 1, None), schema("s", precedence, "l", "u")];
        let series = |config: &FlowConfig| config.flows()[1].series.clone();
        let (before, after) = (cluster.replace(&objects(5)), cluster.replace(&objects(6)));
        assert!(Arc::ptr_eq(&series(&before), &series(&after)));
        assert!(after.generation > before.generation);
        let elsewhere = cluster.replace(&[level("m", 1, None), schema("s", 5, "m", "u")]);
        assert!(!Arc::ptr_eq(&series(&after), &series(&elsewhere)));
    }

    #[test]
    fn levels_and_schemas_beyond_the_limits_are_ignored() {
        let levels = (0..=MAX_LEVELS).map(|number| level(&format!("l{number:03}"), 1, None));
        let schemas = (0..=MAX_FLOW_SCHEMAS).map(|number| schema(&format!("s{number:04}"), 9, "l000", "u"));
        let objects: Vec<Value> = levels.chain(schemas).collect();
        let config = ClusterFlow::new("c").replace(&objects);
        assert_eq!(config.levels.len(), MAX_LEVELS + 2);
        assert!(config.levels.iter().all(|level| *level.name != *format!("l{MAX_LEVELS:03}")));
        assert_eq!(config.flows().len(), MAX_FLOW_SCHEMAS + 1, "catch-all is beyond them");
        assert_eq!(names(&config).last(), Some(&"catch-all"));
    }
}
