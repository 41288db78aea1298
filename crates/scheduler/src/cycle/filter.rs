//! Which nodes are for a pod.

use std::collections::HashSet;
use std::sync::Arc;

use super::Turns;
use crate::cache::{NodeIndex, NodeInfo};
use crate::framework::status::Diagnosis;
use crate::framework::{Filter, PluginSet, PreFilter, Profile, Rejection};
use crate::view::Pod;
use crate::world::World;

/// So many nodes are always compared if they are there, and at least so many of a hundred:
/// `minFeasibleNodesToFind` and `minFeasibleNodesPercentageToFind` of upstream.
const MIN_FEASIBLE_NODES: usize = 100;
const MIN_FEASIBLE_PERCENTAGE: usize = 5;

/// A filter, and whose it is.
pub(crate) struct Active<'w> {
    /// The place of the plugin in its profile.
    pub(crate) place: usize,
    pub(crate) filter: Filter<'w>,
}

impl Active<'_> {
    /// The filter that stands for trying things out.
    pub(crate) fn copies<'w>(filters: &[Active<'w>]) -> Vec<Active<'w>> {
        filters.iter().map(|active| Active { place: active.place, filter: active.filter.boxed() }).collect()
    }
}

/// What plugins have to say before any node is looked at.
pub(super) struct PreFiltered<'w> {
    pub(super) filters: Vec<Active<'w>>,
    pub(super) only: Option<Only>,
}

/// The only nodes that come into question, and who said so.
pub(super) struct Only {
    nodes: Vec<NodeIndex>,
    by: PluginSet,
    names: String,
}

/// Asks everyone before any node is looked at. The error is who refuses all of them, and why.
pub(super) fn pre_filter<'w>(
    profile: &'w Profile,
    world: &'w World,
    pod: &'w Arc<Pod>,
) -> Result<PreFiltered<'w>, (usize, Rejection)> {
    let mut filters = Vec::with_capacity(profile.plugins.len());
    let mut only: Option<(HashSet<NodeIndex>, PluginSet)> = None;
    for (place, enabled) in profile.plugins.iter().enumerate() {
        let filter = match enabled.plugin.pre_filter(world, pod) {
            PreFilter::Skip => continue,
            PreFilter::Reject(rejection) => return Err((place, rejection)),
            PreFilter::Filter(filter) => filter,
            PreFilter::Only(nodes, filter) => {
                let nodes: HashSet<_> = nodes.into_iter().collect();
                let (known, mut by) = only.take().unwrap_or_else(|| (nodes.clone(), PluginSet::default()));
                by.insert(place);
                only = Some((known.intersection(&nodes).copied().collect(), by));
                filter
            }
        };
        filters.push(Active { place, filter });
    }
    let only = only.map(|(nodes, by)| {
        let in_order = world.cache.known_order().iter().copied();
        Only {
            nodes: in_order.filter(|node| nodes.contains(node)).collect(),
            by,
            names: profile.names(by).join(" "),
        }
    });
    Ok(PreFiltered { filters, only })
}

/// The nodes that are for a pod, as many as are worth comparing.
pub(super) fn feasible(
    profile: &Profile,
    world: &World,
    pod: &Pod,
    filters: &[Active<'_>],
    only: Option<&Only>,
    turns: &mut Turns,
    diagnosis: &mut Diagnosis,
) -> Vec<NodeIndex> {
    let all = world.cache.known_order();
    let nodes = only.map_or(all, |only| &only.nodes);
    if let Some(only) = only {
        diagnosis.plugins = only.by;
        diagnosis.unseen = Some(format!("node(s) didn't satisfy plugin(s) [{}]", only.names).into());
        let promised = world.cache.find(&pod.nominated_node).map(|info| info.index);
        diagnosis.nominated_is_unresolvable = promised.is_some_and(|promised| !nodes.contains(&promised));
    }
    let wanted = nodes_to_find(nodes.len(), profile.percentage_of_nodes_to_score);
    let mut feasible = Vec::with_capacity(wanted);
    let mut seen = 0;
    for turn in 0..nodes.len() {
        if feasible.len() == wanted {
            break;
        }
        let node = nodes[(turns.next + turn) % nodes.len()];
        let info = world.cache.info(node);
        seen += 1;
        match fits(filters, world, pod, info) {
            Ok(()) => feasible.push(node),
            Err((by, rejection)) => {
                diagnosis.plugins.insert(by);
                diagnosis.refuse(node, &rejection);
                let is_promised = |node: &Arc<_>| is_named(node, &pod.nominated_node);
                if !rejection.resolvable && info.node.as_ref().is_some_and(is_promised) {
                    diagnosis.nominated_is_unresolvable = true;
                }
            }
        }
    }
    turns.next = (turns.next + seen) % all.len();
    feasible
}

fn is_named(node: &crate::view::Node, name: &str) -> bool {
    !name.is_empty() && *node.metadata.name == *name
}

/// After how many nodes that fit the search ends.
pub(super) fn nodes_to_find(nodes: usize, percentage: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let adaptive = || 50_usize.saturating_sub(nodes / 125).max(MIN_FEASIBLE_PERCENTAGE);
    let percentage = if percentage == 0 { adaptive() } else { percentage };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES)
}

/// Whether a node is for a pod, also when everyone at least as important has come who was promised it.
pub(crate) fn fits(
    filters: &[Active<'_>],
    world: &World,
    pod: &Pod,
    info: &NodeInfo,
) -> Result<(), (usize, Rejection)> {
    if !world.nominated.is_empty()
        && let Some(node) = &info.node
    {
        let promised = world.nominated.on(&node.metadata.name).iter();
        let mut promised = promised
            .filter(|other| other.priority >= pod.priority && other.metadata.uid != pod.metadata.uid)
            .peekable();
        if promised.peek().is_some() {
            let (mut filters, mut info) = (Active::copies(filters), info.clone());
            for other in promised {
                info.add(Arc::clone(other));
                filters.iter_mut().for_each(|active| active.filter.add_pod(other, &info));
            }
            ask(&filters, &info)?;
        }
    }
    ask(filters, info)
}

fn ask(filters: &[Active<'_>], info: &NodeInfo) -> Result<(), (usize, Rejection)> {
    filters
        .iter()
        .try_for_each(|active| active.filter.filter(info).map_err(|rejection| (active.place, rejection)))
}
