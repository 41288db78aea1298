//! The group `metrics.k8s.io`: what nodes and pods use of their resources right now.
//!
//! Nothing of it is stored: whoever serves it asks who measures. Upstream has it from an add-on, the
//! metrics-server; kinds, tables and priorities are that one's.

pub mod node_metrics;
pub mod pod_metrics;

use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::kind::Column;
use crate::view;

/// The name of the group.
pub const GROUP: &str = "metrics.k8s.io";

fn columns() -> Vec<Column> {
    let quantity =
        |name, description| Column { format: "quantity".into(), ..Column::text(name, description) };
    let window = Column::text("Window", "the time over which it was measured");
    vec![
        Column::name(),
        quantity("cpu", "how much of the processors"),
        quantity("memory", "how much memory"),
        Column { format: "duration".into(), ..window },
    ]
}

/// The cells of something that uses so much.
fn cells<'a>(object: &Value, usages: impl Iterator<Item = &'a Value> + Clone) -> Vec<Value> {
    let sum = |resource: &str| {
        let amounts =
            usages.clone().filter_map(|usage| view::text(usage, &[resource]).parse::<Quantity>().ok());
        let sum = amounts.reduce(|sum, amount| sum.checked_add(&amount).unwrap_or(sum));
        Value::from(sum.map_or_else(|| "0".to_owned(), |sum| sum.canonical()))
    };
    vec![view::name(object).into(), sum("cpu"), sum("memory"), view::text(object, &["window"]).into()]
}
