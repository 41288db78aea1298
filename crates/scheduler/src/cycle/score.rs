//! Scoring: the best of the feasible nodes.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Rng;

use super::{Point, Status, Trace};
use crate::cache::NodeIndex;
use crate::cluster_state::ClusterState;
use crate::framework::{MAX_NODE_SCORE, NodeScore, PreScore, Profile};
use crate::view::Pod;

/// The scorers that PreScore returned, with the index of their plugin in the profile.
type Scorers<'w> = Vec<(usize, Box<dyn NodeScore + 'w>)>;

/// The node with the highest score, a random one if several are equal. The error is the message of a failed
/// plugin.
pub(super) fn best(
    profile: &Profile,
    state: &ClusterState,
    pod: &Arc<Pod>,
    nodes: &[NodeIndex],
    rng: &mut Rng,
    trace: &mut Trace,
) -> Result<NodeIndex, String> {
    let totals = totals(profile, state, pod, nodes, trace)?;
    let best = totals.iter().copied().max().unwrap_or(0);
    let as_good = nodes.iter().zip(&totals).filter(|(_, total)| **total == best).map(|(node, _)| *node);
    let count = as_good.clone().count() as u64;
    let which = usize::try_from(rng.below(count)).unwrap_or(0);
    Ok(as_good.clone().nth(which).unwrap_or(nodes[0]))
}

/// Weighted sum of all plugins' scores for each node.
pub(super) fn totals(
    profile: &Profile,
    state: &ClusterState,
    pod: &Arc<Pod>,
    nodes: &[NodeIndex],
    trace: &mut Trace,
) -> Result<Vec<i64>, String> {
    let began = trace.begin();
    let scorers = pre_score(profile, state, pod, nodes, trace);
    let status = if scorers.is_ok() { Status::Success } else { Status::Error };
    trace.end(Point::PreScore, status, began);
    let scorers = scorers?;
    let began = trace.begin();
    let totals = add_up(profile, state, nodes, &scorers, trace);
    let status = if totals.is_ok() { Status::Success } else { Status::Error };
    trace.end(Point::Score, status, began);
    totals
}

fn pre_score<'w>(
    profile: &'w Profile,
    state: &'w ClusterState,
    pod: &'w Arc<Pod>,
    nodes: &[NodeIndex],
    trace: &mut Trace,
) -> Result<Scorers<'w>, String> {
    let mut scorers = Vec::with_capacity(profile.plugins.len());
    for (index, enabled) in profile.plugins.iter().enumerate() {
        let plugin_began = trace.begin_plugin();
        let answer = enabled.plugin.pre_score(state, pod, nodes);
        let status = match &answer {
            PreScore::Skip => Status::Skip,
            PreScore::Score(_) => Status::Success,
            PreScore::Error(_) => Status::Error,
        };
        trace.end_plugin(Point::PreScore, index, status, plugin_began);
        trace.evaluated(Point::PreScore, index, u32::from(status != Status::Skip));
        match answer {
            PreScore::Skip => {}
            PreScore::Score(scorer) => scorers.push((index, scorer)),
            PreScore::Error(message) => {
                return Err(format!("running PreScore plugin \"{}\": {message}", enabled.plugin.name()));
            }
        }
    }
    Ok(scorers)
}

fn add_up(
    profile: &Profile,
    state: &ClusterState,
    nodes: &[NodeIndex],
    scorers: &Scorers<'_>,
    trace: &mut Trace,
) -> Result<Vec<i64>, String> {
    let mut totals = vec![0_i64; nodes.len()];
    let mut scores = vec![0; nodes.len()];
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    for (index, scorer) in scorers {
        let enabled = &profile.plugins[*index];
        let plugin_began = trace.begin_plugin();
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score = scorer.score(state.cache.info(*node));
        }
        end_scores(trace, *index, count, plugin_began);
        let plugin_began = trace.begin_plugin();
        scorer.normalize(&mut scores);
        trace.end_plugin(Point::ScoreExtensionNormalize, *index, Status::Success, plugin_began);
        for (total, score) in totals.iter_mut().zip(&scores) {
            if !(0..=MAX_NODE_SCORE).contains(score) {
                let name = enabled.plugin.name();
                return Err(format!(
                    "applying score defaultWeights on Score plugins: plugin \"{name}\" returns an invalid score \
                     {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                ));
            }
            *total += score * enabled.weight;
        }
    }
    Ok(totals)
}

/// Records the mean duration of a Score plugin per node, which is what the metric reports.
fn end_scores(trace: &mut Trace, index: usize, nodes: u32, plugin_began: Duration) {
    trace.evaluated(Point::Score, index, nodes);
    if trace.is_sampled() {
        let mean = trace.begin().saturating_sub(plugin_began) / nodes.max(1);
        trace.plugins.push((Point::Score, index, Status::Success, mean));
    }
}
