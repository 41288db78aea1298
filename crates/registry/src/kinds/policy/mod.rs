//! The group `policy`.

pub mod disruption;
pub mod pod_disruption_budget;
