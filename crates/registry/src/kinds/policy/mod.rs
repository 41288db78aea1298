//! The policy group.

pub mod disruption;
pub mod pod_disruption_budget;
