//! One attempt to find a node for a pod, from what is known to what is decided. It waits for nothing and
//! changes nothing outside.

mod filter;
mod score;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_base::Rng;

pub(crate) use filter::{Active, fits};

use crate::cache::NodeIndex;
use crate::framework::status::Diagnosis;
use crate::framework::{PostFilter, Profile};
use crate::view::Pod;
use crate::world::World;

/// What goes on from one attempt to the next.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Where to begin with the nodes, so that all of them have their turn.
    next: usize,
    /// Chooses among nodes that are equally good.
    rng: Rng,
}

impl Turns {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { next: 0, rng }
    }
}

/// An attempt in progress.
pub(crate) struct Attempt<'w> {
    pub(crate) world: &'w World,
    pub(crate) pod: &'w Arc<Pod>,
    /// What is asked about each node.
    pub(crate) filters: Vec<Active<'w>>,
    pub(crate) rng: &'w mut Rng,
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// This node is for it.
    Fits(Box<str>),
    /// No node is, and this came of trying to make room.
    Refused(Box<Diagnosis>, PostFilter),
    /// There is no node at all.
    NoNodes,
}

/// Finds a node for a pod.
pub(crate) fn schedule(profile: &Profile, world: &mut World, pod: &Arc<Pod>, turns: &mut Turns) -> Outcome {
    for enabled in &profile.plugins {
        enabled.plugin.prepare(world, pod);
    }
    if world.cache.order().is_empty() {
        return Outcome::NoNodes;
    }
    let world = &*world;
    let nodes = world.cache.known_order().len();
    let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
    let filtered = match filter::pre_filter(profile, world, pod) {
        Ok(filtered) => filtered,
        Err((by, rejection)) => {
            diagnosis.plugins.insert(by);
            diagnosis.nominated_is_unresolvable = !rejection.resolvable;
            diagnosis.before_nodes = Some(rejection);
            return refused(profile, world, pod, turns, Vec::new(), diagnosis);
        }
    };
    let filter::PreFiltered { filters, only } = filtered;
    let chosen = nominated(world, pod, &filters);
    let feasible = match chosen {
        Some(node) => vec![node],
        None => filter::feasible(profile, world, pod, &filters, only.as_ref(), turns, &mut diagnosis),
    };
    match *feasible {
        [] => refused(profile, world, pod, turns, filters, diagnosis),
        [only] => Outcome::Fits(name_of(world, only)),
        _ => {
            let best = score::best(profile, world, pod, &feasible, &mut turns.rng);
            Outcome::Fits(name_of(world, best))
        }
    }
}

/// The node a pod was promised, if it fits there now.
fn nominated(world: &World, pod: &Pod, filters: &[Active<'_>]) -> Option<NodeIndex> {
    let promised = world.nominated.node_of(&pod.metadata.uid).unwrap_or(&pod.nominated_node);
    if promised.is_empty() {
        return None;
    }
    let info = world.cache.find(promised)?;
    fits(filters, world, pod, info).is_ok().then_some(info.index)
}

fn refused<'w>(
    profile: &'w Profile,
    world: &'w World,
    pod: &'w Arc<Pod>,
    turns: &'w mut Turns,
    filters: Vec<Active<'w>>,
    mut diagnosis: Diagnosis,
) -> Outcome {
    let mut attempt = Attempt { world, pod, filters, rng: &mut turns.rng };
    let made_room =
        profile.plugins.iter().find_map(|enabled| enabled.plugin.post_filter(&mut attempt, &diagnosis));
    let made_room = made_room.unwrap_or_default();
    diagnosis.after.clone_from(&made_room.message);
    Outcome::Refused(Box::new(diagnosis), made_room)
}

fn name_of(world: &World, node: NodeIndex) -> Box<str> {
    let node = world.cache.info(node).node.as_ref();
    node.map(|node| node.metadata.name.clone()).unwrap_or_default()
}
