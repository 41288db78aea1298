//! Filtering: the nodes that are feasible for a pod.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{CycleState, Point, Status, Trace};
use crate::cache::{NodeIndex, NodeInfo};
use crate::cluster_state::ClusterState;
use crate::framework::status::Diagnosis;
use crate::framework::{Code, Filter, PluginSet, PreFilter, Profile, Rejection};
use crate::view::Pod;

/// Lower bounds on the number of nodes to score: `minFeasibleNodesToFind` and
/// `minFeasibleNodesPercentageToFind` of kube-scheduler.
const MIN_FEASIBLE_NODES: usize = 100;
const MIN_FEASIBLE_PERCENTAGE: usize = 5;

/// Number of nodes for which a sampled cycle measures the duration of each Filter plugin. Reading the clock
/// for every node would cost more than most plugins do.
const TIMED_NODES: usize = 8;

/// A filter with the plugin that returned it.
pub(crate) struct Active<'w> {
    /// Index of the plugin in its profile.
    pub(crate) index: usize,
    pub(crate) filter: Filter<'w>,
    /// Number of calls.
    calls: Cell<u32>,
}

impl<'a> Active<'a> {
    fn new(index: usize, filter: Filter<'a>) -> Self {
        Self { index, filter, calls: Cell::new(0) }
    }

    /// Independent copies of the filters, for evaluating hypothetical pods.
    pub(crate) fn copies<'w>(filters: &[Active<'w>]) -> Vec<Active<'w>> {
        filters.iter().map(|active| Active::new(active.index, active.filter.boxed())).collect()
    }

    /// Adds the calls of copies to the original filters.
    pub(crate) fn count_back(copies: &[Active<'_>], filters: &[Active<'_>]) {
        for (copy, active) in copies.iter().zip(filters) {
            active.calls.set(active.calls.get() + copy.calls.take());
        }
    }

    /// Adds the number of calls of each filter to the trace.
    pub(super) fn report(filters: &[Active<'_>], trace: &mut Trace) {
        for active in filters {
            trace.evaluated(Point::Filter, active.index, active.calls.get());
        }
    }
}

/// Combined result of the PreFilter plugins.
pub(super) struct PreFiltered<'w> {
    pub(super) filters: Vec<Active<'w>>,
    pub(super) only: Option<Only>,
}

/// The only nodes to examine, and the plugins that restricted the search to them.
pub(super) struct Only {
    nodes: Vec<NodeIndex>,
    by: PluginSet,
    names: String,
}

/// Runs PreFilter of all plugins. The error is the rejecting plugin's index and its rejection.
pub(super) fn pre_filter<'w>(
    profile: &'w Profile,
    state: &'w ClusterState,
    pod: &'w Arc<Pod>,
    trace: &mut Trace,
) -> Result<PreFiltered<'w>, (usize, Rejection)> {
    let began = trace.begin();
    let answer = run_pre_filters(profile, state, pod, trace);
    let status = answer.as_ref().map_or_else(|(_, rejection)| rejection.code.into(), |_| Status::Success);
    trace.end(Point::PreFilter, status, began);
    answer
}

fn run_pre_filters<'w>(
    profile: &'w Profile,
    state: &'w ClusterState,
    pod: &'w Arc<Pod>,
    trace: &mut Trace,
) -> Result<PreFiltered<'w>, (usize, Rejection)> {
    let mut filters = Vec::with_capacity(profile.plugins.len());
    let mut only: Option<(HashSet<NodeIndex>, PluginSet)> = None;
    for (index, enabled) in profile.plugins.iter().enumerate() {
        let plugin_began = trace.begin_plugin();
        let answer = enabled.plugin.pre_filter(state, pod);
        note(trace, index, &answer, plugin_began);
        let filter = match answer {
            PreFilter::Skip => continue,
            PreFilter::Reject(rejection) => return Err((index, rejection)),
            PreFilter::Filter(filter) => filter,
            PreFilter::Only(nodes, filter) => {
                let nodes: HashSet<_> = nodes.into_iter().collect();
                let (known, mut by) = only.take().unwrap_or_else(|| (nodes.clone(), PluginSet::default()));
                by.insert(index);
                only = Some((known.intersection(&nodes).copied().collect(), by));
                filter
            }
        };
        filters.push(Active::new(index, filter));
    }
    let only = only.map(|(nodes, by)| {
        let in_order = state.cache.cached_order().iter().copied();
        Only {
            nodes: in_order.filter(|node| nodes.contains(node)).collect(),
            by,
            names: profile.names(by).join(" "),
        }
    });
    Ok(PreFiltered { filters, only })
}

fn note(trace: &mut Trace, index: usize, answer: &PreFilter<'_>, plugin_began: Duration) {
    let status = match answer {
        PreFilter::Skip => Status::Skip,
        PreFilter::Reject(rejection) => rejection.code.into(),
        PreFilter::Filter(_) | PreFilter::Only(..) => Status::Success,
    };
    trace.end_plugin(Point::PreFilter, index, status, plugin_began);
    trace.evaluated(Point::PreFilter, index, u32::from(status != Status::Skip));
}

/// Runs the filters until enough feasible nodes are found. The error is the message of a failed plugin.
#[expect(clippy::too_many_arguments, reason = "all of it is what one attempt is about")]
pub(super) fn feasible(
    profile: &Profile,
    state: &ClusterState,
    pod: &Pod,
    filters: &[Active<'_>],
    only: Option<&Only>,
    cycle_state: &mut CycleState,
    diagnosis: &mut Diagnosis,
    trace: &mut Trace,
) -> Result<Vec<NodeIndex>, String> {
    let all = state.cache.cached_order();
    let nodes = only.map_or(all, |only| &only.nodes);
    if let Some(only) = only {
        diagnosis.plugins = only.by;
        diagnosis.unseen = Some(format!("node(s) didn't satisfy plugin(s) [{}]", only.names).into());
        let nominated = state.cache.find(&pod.nominated_node).map(|info| info.index);
        diagnosis.nominated_is_unresolvable = nominated.is_some_and(|nominated| !nodes.contains(&nominated));
    }
    let wanted = nodes_to_find(nodes.len(), profile.percentage_of_nodes_to_score);
    let mut feasible = Vec::with_capacity(wanted);
    let mut seen = 0;
    for offset in 0..nodes.len() {
        if feasible.len() == wanted {
            break;
        }
        let node = nodes[(cycle_state.next + offset) % nodes.len()];
        let info = state.cache.info(node);
        seen += 1;
        if offset < TIMED_NODES && trace.is_sampled() {
            time(filters, info, trace);
        }
        match fits(filters, state, pod, info) {
            Ok(()) => feasible.push(node),
            Err((by, rejection)) if rejection.code == Code::Error => {
                let name = profile.plugins[by].plugin.name();
                return Err(format!("running \"{name}\" filter plugin: {rejection}"));
            }
            Err((by, rejection)) => {
                diagnosis.note(by, &rejection);
                diagnosis.refuse(node, &rejection);
                let is_nominated = |node: &Arc<_>| is_named(node, &pod.nominated_node);
                if !rejection.is_resolvable() && info.node.as_ref().is_some_and(is_nominated) {
                    diagnosis.nominated_is_unresolvable = true;
                }
            }
        }
    }
    cycle_state.next = (cycle_state.next + seen) % all.len();
    Ok(feasible)
}

/// Measures each Filter plugin on one node. The plugins run a second time for it, so that cycles that are
/// not sampled pay nothing.
fn time(filters: &[Active<'_>], info: &NodeInfo, trace: &mut Trace) {
    for active in filters {
        let plugin_began = trace.begin_plugin();
        let answer = active.filter.filter(info);
        let status = answer.as_ref().map_or_else(|rejection| rejection.code.into(), |()| Status::Success);
        trace.end_plugin(Point::Filter, active.index, status, plugin_began);
        if answer.is_err() {
            break;
        }
    }
}

fn is_named(node: &crate::view::Node, name: &str) -> bool {
    !name.is_empty() && *node.metadata.name == *name
}

/// Number of feasible nodes after which the search ends.
pub(super) fn nodes_to_find(nodes: usize, percentage: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let adaptive = || 50_usize.saturating_sub(nodes / 125).max(MIN_FEASIBLE_PERCENTAGE);
    let percentage = if percentage == 0 { adaptive() } else { percentage };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES)
}

/// Runs the filters on a node; if pods of equal or higher priority are nominated to it, first as if they
/// were there.
pub(crate) fn fits(
    filters: &[Active<'_>],
    state: &ClusterState,
    pod: &Pod,
    info: &NodeInfo,
) -> Result<(), (usize, Rejection)> {
    if !state.nominated.is_empty()
        && let Some(node) = &info.node
    {
        let nominated = state.nominated.on(&node.metadata.name).iter();
        let mut nominated = nominated
            .filter(|other| other.priority >= pod.priority && other.metadata.uid != pod.metadata.uid)
            .peekable();
        if nominated.peek().is_some() {
            let (mut copies, mut info) = (Active::copies(filters), info.clone());
            for other in nominated {
                info.add(Arc::clone(other));
                copies.iter_mut().for_each(|active| active.filter.add_pod(other, &info));
            }
            let answer = run_filters(&copies, &info);
            Active::count_back(&copies, filters);
            answer?;
        }
    }
    run_filters(filters, info)
}

fn run_filters(filters: &[Active<'_>], info: &NodeInfo) -> Result<(), (usize, Rejection)> {
    filters.iter().try_for_each(|active| {
        active.calls.set(active.calls.get() + 1);
        active.filter.filter(info).map_err(|rejection| (active.index, rejection))
    })
}
