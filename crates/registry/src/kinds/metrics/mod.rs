//! The group `metrics.k8s.io`: current resource usage of nodes and pods.
//!
//! Nothing of it is stored: the server of these kinds gets the values from a source of measurements on each read.
//! In Kubernetes an add-on, metrics-server, provides the group; kinds, tables and priorities are the same as there.

pub mod node_metrics;
pub mod pod_metrics;

use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::kind::Column;
use crate::view;

/// Name of the group.
pub const GROUP: &str = "metrics.k8s.io";

fn columns() -> Vec<Column> {
    let quantity =
        |name, description| Column { format: "quantity".into(), ..Column::text(name, description) };
    let window = Column::text("Window", "time interval of the measurement");
    vec![
        Column::name(),
        quantity("cpu", "how much of the processors"),
        quantity("memory", "how much memory"),
        Column { format: "duration".into(), ..window },
    ]
}

/// Returns the cells of a row with the sum of the usages.
fn cells<'a>(object: &Value, usages: impl Iterator<Item = &'a Value> + Clone) -> Vec<Value> {
    let sum = |resource: &str| {
        let amounts =
            usages.clone().filter_map(|usage| view::text(usage, &[resource]).parse::<Quantity>().ok());
        let sum = amounts.reduce(|sum, amount| sum.checked_add(&amount).unwrap_or(sum));
        Value::from(sum.map_or_else(|| "0".to_owned(), |sum| sum.canonical()))
    };
    vec![view::name(object).into(), sum("cpu"), sum("memory"), view::text(object, &["window"]).into()]
}
