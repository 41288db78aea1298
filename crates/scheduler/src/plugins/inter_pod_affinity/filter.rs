//! InterPodAffinity filter: required affinity and anti-affinity of the pod, and required anti-affinity of
//! existing pods.

use std::sync::Arc;

use super::means_all;
use super::near::{self, Near};
use crate::cache::{NodeInfo, Said};
use crate::cluster_state::ClusterState;
use crate::framework::{Filter, NodeFilter, Rejection};
use crate::view::{Pod, Term};

const NOT_WITH: &str = "node(s) didn't match pod affinity rules";
const NOT_WITHOUT: &str = "node(s) didn't match pod anti-affinity rules";
const UNBEARABLE: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// State that is not affected by simulated pods.
struct Base<'w> {
    state: &'w ClusterState,
    pod: &'w Pod,
    /// For each affinity term, the number of pods per topology value that match all affinity terms.
    with: Vec<Near>,
    /// For each anti-affinity term, the number of pods per topology value that match it.
    without: Vec<Near>,
    /// Anti-affinity terms of existing pods that match this pod.
    unbearable: Vec<&'w Said>,
    /// No existing pod matches the required affinity, but the pod matches its own terms, so it may be
    /// scheduled first.
    may_be_first: bool,
    required: &'w [Arc<Term>],
    anti_required: &'w [Arc<Term>],
}

/// Changes to the counts by simulated pods, all on one node.
#[derive(Clone, Default)]
struct Tried {
    with: i64,
    without: Vec<i64>,
    unbearable: i64,
}

/// The filter of the plugin.
#[derive(Clone)]
pub(super) struct Bearable<'w> {
    base: Arc<Base<'w>>,
    tried: Option<Tried>,
}

impl<'w> Bearable<'w> {
    /// None if the filter would accept every node.
    pub(super) fn new(state: &'w ClusterState, pod: &'w Pod) -> Option<Self> {
        let (required, anti_required) = pod
            .affinity
            .as_ref()
            .map_or((&[][..], &[][..]), |affinity| (&*affinity.required, &*affinity.anti_required));
        let of_namespace = state.workloads.namespace_labels(pod.namespace());
        let unbearable: Vec<_> = (state.cache.terms().anti_required.iter())
            .filter(|(term, _)| term.matches(pod.namespace(), &pod.labels, of_namespace))
            .map(|(_, said)| said)
            .collect();
        if required.is_empty() && anti_required.is_empty() && unbearable.is_empty() {
            return None;
        }
        let all = (!required.is_empty()).then(|| near::all_of(state, required));
        let with: Vec<_> = (all.iter())
            .flat_map(|all| required.iter().map(|term| Near::new(state, all, &term.topology_key)))
            .collect();
        let without = anti_required
            .iter()
            .map(|term| Near::new(state, &near::one(state, term), &term.topology_key))
            .collect();
        let may_be_first = !with.iter().any(|near| near.is_anybody) && means_all(state, required, pod);
        let base = Base { state, pod, with, without, unbearable, may_be_first, required, anti_required };
        Some(Self { base: Arc::new(base), tried: None })
    }

    fn has_whom_it_needs(&self, info: &NodeInfo) -> bool {
        let Base { state, with, may_be_first, .. } = &*self.base;
        let more = self.tried.as_ref().map_or(0, |tried| tried.with);
        let mut all_there = true;
        for near in with {
            // The node must have every topology key, even for the first pod of a group.
            let Some(value) = near.value(state, info) else { return false };
            all_there &= near.at(value) + more > 0;
        }
        all_there || *may_be_first
    }

    fn is_free_of_others(&self, info: &NodeInfo) -> bool {
        let Base { state, without, .. } = &*self.base;
        without.iter().enumerate().all(|(place, near)| {
            let more = self.tried.as_ref().map_or(0, |tried| tried.without[place]);
            near.value(state, info).is_none_or(|value| near.at(value) + more <= 0)
        })
    }

    fn is_welcome(&self, info: &NodeInfo) -> bool {
        let Base { state, unbearable, .. } = &*self.base;
        let topology = state.cache.topology();
        let said = |said: &&Said| topology.value(said.column, info.index).map_or(0, |value| said.at(value));
        match &self.tried {
            None => unbearable.iter().all(|place| said(place) <= 0),
            // On one node it makes no difference by which term they are counted.
            Some(tried) => unbearable.iter().map(said).sum::<i64>() + tried.unbearable <= 0,
        }
    }

    fn try_out(&mut self, other: &Pod, info: &NodeInfo, by: i64) {
        let Base { state, pod, required, anti_required, .. } = &*self.base;
        let Some(node) = &info.node else { return };
        let tried = self
            .tried
            .get_or_insert_with(|| Tried { without: vec![0; anti_required.len()], ..Tried::default() });
        if means_all(state, required, other) {
            tried.with += by;
        }
        let of_namespace = state.workloads.namespace_labels(other.namespace());
        for (term, tried) in anti_required.iter().zip(&mut tried.without) {
            if term.matches(other.namespace(), &other.labels, of_namespace) {
                *tried += by;
            }
        }
        let of_own = state.workloads.namespace_labels(pod.namespace());
        for term in other.affinity.iter().flat_map(|affinity| &affinity.anti_required) {
            if term.matches(pod.namespace(), &pod.labels, of_own)
                && node.labels.contains_key(&term.topology_key)
            {
                tried.unbearable += by;
            }
        }
    }
}

impl<'w> NodeFilter<'w> for Bearable<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        if !self.has_whom_it_needs(info) {
            return Err(Rejection::unresolvable(NOT_WITH));
        }
        if !self.is_free_of_others(info) {
            return Err(Rejection::resolvable(NOT_WITHOUT));
        }
        if !self.is_welcome(info) {
            return Err(Rejection::resolvable(UNBEARABLE));
        }
        Ok(())
    }

    fn add_pod(&mut self, pod: &Pod, info: &NodeInfo) {
        self.try_out(pod, info, 1);
    }

    fn remove_pod(&mut self, pod: &Pod, info: &NodeInfo) {
        self.try_out(pod, info, -1);
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
