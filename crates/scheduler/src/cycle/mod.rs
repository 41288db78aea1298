//! One scheduling cycle: from the cached cluster state to a node or a diagnosis. It neither waits nor has
//! side effects.

mod filter;
mod score;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::Arc;

use coracle_base::Rng;

pub(crate) use filter::{Active, fits};
pub(crate) use trace::{Point, Status, Trace};

use crate::cache::NodeIndex;
use crate::cluster_state::ClusterState;
use crate::framework::status::Diagnosis;
use crate::framework::{Code, Nomination, PostFilter, Profile, Rejection};
use crate::view::Pod;

/// State that carries over from one scheduling cycle to the next.
#[derive(Debug)]
pub(crate) struct CycleState {
    /// Index of the node to start with, so that successive cycles examine all nodes.
    next: usize,
    /// Selects among nodes with equal scores.
    rng: Rng,
}

impl CycleState {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { next: 0, rng }
    }
}

/// A scheduling cycle in progress.
pub struct Attempt<'w> {
    pub(crate) state: &'w ClusterState,
    pub(crate) pod: &'w Arc<Pod>,
    /// The filters that PreFilter returned.
    pub(crate) filters: Vec<Active<'w>>,
    pub(crate) rng: &'w mut Rng,
}

impl Attempt<'_> {
    /// The cluster state the cycle reads.
    pub fn state(&self) -> &ClusterState {
        self.state
    }

    /// The pod to schedule.
    pub fn pod(&self) -> &Arc<Pod> {
        self.pod
    }

    /// Runs the filters for a node as if the given pods were not there.
    ///
    /// # Errors
    /// The rejection of the first filter that fails.
    pub fn fits_without(&self, node: &str, others: &[Arc<Pod>]) -> Result<(), Rejection> {
        let Some(info) = self.state.cache.find(node) else {
            return Err(Rejection::unresolvable("node is not known"));
        };
        let (mut info, mut filters) = (info.clone(), Active::copies(&self.filters));
        for other in others {
            info.remove(&other.metadata.uid);
            filters.iter_mut().for_each(|active| active.filter.remove_pod(other, &info));
        }
        let fits = fits(&filters, self.state, self.pod, &info).map_err(|(_, rejection)| rejection);
        Active::count_back(&filters, &self.filters);
        fits
    }
}

/// Result of a scheduling cycle.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The chosen node.
    Fits(Box<str>),
    /// No node is feasible; with the result of PostFilter.
    Refused(Box<Diagnosis>, PostFilter),
    /// The cluster has no nodes.
    NoNodes,
    /// A plugin returned an error.
    Failed(String),
}

/// Runs one scheduling cycle for a pod.
pub(crate) fn schedule(
    profile: &Profile,
    state: &mut ClusterState,
    pod: &Arc<Pod>,
    cycle_state: &mut CycleState,
    trace: &mut Trace,
) -> Outcome {
    for enabled in &profile.plugins {
        enabled.plugin.prepare(state, pod);
    }
    if state.cache.order().is_empty() {
        return Outcome::NoNodes;
    }
    let state = &*state;
    let nodes = state.cache.cached_order().len();
    let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
    let filtered = match filter::pre_filter(profile, state, pod, trace) {
        Ok(filtered) => filtered,
        Err((by, rejection)) if rejection.code == Code::Error => {
            let name = profile.plugins[by].plugin.name();
            return Outcome::Failed(format!("running PreFilter plugin \"{name}\": {rejection}"));
        }
        Err((by, rejection)) => {
            diagnosis.note(by, &rejection);
            diagnosis.nominated_is_unresolvable = !rejection.is_resolvable();
            diagnosis.before_nodes = Some(rejection);
            return refused(profile, state, pod, cycle_state, Vec::new(), diagnosis, trace);
        }
    };
    let filter::PreFiltered { filters, only } = filtered;
    let began = trace.begin();
    let feasible = match nominated(state, pod, &filters) {
        Some(node) => Ok(vec![node]),
        None => {
            filter::feasible(profile, state, pod, &filters, only.as_ref(), cycle_state, &mut diagnosis, trace)
        }
    };
    let status = match &feasible {
        Err(_) => Status::Error,
        Ok(nodes) if nodes.is_empty() => Status::Unschedulable,
        Ok(_) => Status::Success,
    };
    trace.end(Point::Filter, status, began);
    let outcome = match feasible.as_deref() {
        Err(message) => Outcome::Failed(message.clone()),
        Ok([]) => return refused(profile, state, pod, cycle_state, filters, diagnosis, trace),
        Ok([only]) => Outcome::Fits(name_of(state, *only)),
        Ok(several) => match score::best(profile, state, pod, several, &mut cycle_state.rng, trace) {
            Ok(best) => Outcome::Fits(name_of(state, best)),
            Err(message) => Outcome::Failed(message),
        },
    };
    Active::report(&filters, trace);
    outcome
}

/// The nominated node of a pod, if the pod fits there.
fn nominated(state: &ClusterState, pod: &Pod, filters: &[Active<'_>]) -> Option<NodeIndex> {
    let nominated_node = state.nominated.node_of(&pod.metadata.uid).unwrap_or(&pod.nominated_node);
    if nominated_node.is_empty() {
        return None;
    }
    let info = state.cache.find(nominated_node)?;
    fits(filters, state, pod, info).is_ok().then_some(info.index)
}

fn refused<'w>(
    profile: &'w Profile,
    state: &'w ClusterState,
    pod: &'w Arc<Pod>,
    cycle_state: &'w mut CycleState,
    filters: Vec<Active<'w>>,
    mut diagnosis: Diagnosis,
    trace: &mut Trace,
) -> Outcome {
    let mut attempt = Attempt { state, pod, filters, rng: &mut cycle_state.rng };
    let post_filter_result = post_filter(profile, &mut attempt, &diagnosis, trace);
    Active::report(&attempt.filters, trace);
    diagnosis.after.clone_from(&post_filter_result.message);
    Outcome::Refused(Box::new(diagnosis), post_filter_result)
}

/// Runs the PostFilter plugins in order until one nominates a node.
fn post_filter(
    profile: &Profile,
    attempt: &mut Attempt<'_>,
    diagnosis: &Diagnosis,
    trace: &mut Trace,
) -> PostFilter {
    let began = trace.begin();
    let (mut last, mut messages) = (PostFilter::default(), Vec::new());
    for (index, enabled) in profile.plugins.iter().enumerate() {
        let plugin_began = trace.begin_plugin();
        let Some(answer) = enabled.plugin.post_filter(attempt, diagnosis) else { continue };
        let has_room = matches!(answer.nomination, Nomination::Node(_));
        let status = if has_room { Status::Success } else { Status::Unschedulable };
        trace.end_plugin(Point::PostFilter, index, status, plugin_began);
        if has_room {
            trace.end(Point::PostFilter, Status::Success, began);
            return answer;
        }
        if answer.nomination != Nomination::Keep {
            last.nomination = answer.nomination;
        }
        messages.push(answer.message);
    }
    trace.end(Point::PostFilter, Status::Unschedulable, began);
    last.message = messages.join(", ");
    last
}

fn name_of(state: &ClusterState, node: NodeIndex) -> Box<str> {
    let node = state.cache.info(node).node.as_ref();
    node.map(|node| node.metadata.name.clone()).unwrap_or_default()
}
