//! Resource usage of objects: requests of pods, and the usage that quotas count.
//!
//! Shared by the server, which checks quotas on writes, and controllers, which recompute usage: both must compute the
//! same.

mod meter;
pub mod pod;
mod pods;
mod qos;
mod scopes;

use std::collections::BTreeMap;

use coracle_meta::quantity::Quantity;
use coracle_meta::view;
use serde_json::Value;

pub use meter::{Meter, allocated, hard, storage_class, used};
pub use qos::qos_class;
pub use scopes::{attributes_classes, is_terminating};

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The quantities at a path.
pub fn amounts(object: &Value, path: &[&str]) -> Amounts {
    view::fields(object, path)
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount).ok()?)))
        .collect()
}

/// Adds quantities. A sum that cannot be represented leaves the total unchanged.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            Some(so_far) => so_far.checked_add(amount).unwrap_or_else(|| so_far.clone()),
            None => amount.clone(),
        };
        total.insert(name.clone(), sum);
    }
}
