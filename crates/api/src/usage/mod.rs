//! How much objects use: what pods ask for, and what quotas count.
//!
//! The server asks when something is written, and controllers when they count anew; both must come to the
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

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts at a path.
pub fn amounts(object: &Value, path: &[&str]) -> Amounts {
    view::fields(object, path)
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount).ok()?)))
        .collect()
}

/// Adds amounts. What has more digits than can be held stays as it was.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match total.get(name) {
            Some(so_far) => so_far.checked_add(amount).unwrap_or_else(|| so_far.clone()),
            None => amount.clone(),
        };
        total.insert(name.clone(), sum);
    }
}
