//! The table column with current and target metrics.

use coracle_meta::quantity::Quantity;
use serde_json::Value;

use crate::view;

/// Maximum number of metrics in the column.
const SHOWN: usize = 2;

/// All metrics with current and target values, such as `cpu: 10%/80%`.
pub(super) fn text(object: &Value) -> String {
    let metrics = view::items(object, &["spec", "metrics"]);
    let current = view::items(object, &["status", "currentMetrics"]);
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown = metrics.iter().take(SHOWN).enumerate();
    let shown: Vec<_> =
        shown.map(|(index, metric)| one(metric, current.get(index).unwrap_or(&Value::Null))).collect();
    let mut text = shown.join(", ");
    if metrics.len() > SHOWN {
        text.push_str(&format!(" + {} more...", metrics.len() - SHOWN));
    }
    text
}

fn one(metric: &Value, status: &Value) -> String {
    let field = match view::text(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |name| view::at(metric, &[field, "target", name]);
    let current = |name| view::at(status, &[field, "current", name]);
    let averages = target("averageValue").is_some();
    match field {
        "external" | "object" if averages => {
            let current = current("averageValue").map_or_else(unknown, amount);
            format!("{current}/{} (avg)", shown_amount(target("averageValue")))
        }
        "external" | "object" | "pods" => {
            let name = if field == "pods" { "averageValue" } else { "value" };
            let measured = status.get(field).map_or_else(unknown, |_| shown_amount(current(name)));
            format!("{measured}/{}", shown_amount(target(name)))
        }
        _ => {
            let resource = view::text(metric, &[field, "name"]);
            let (current, target) = if averages {
                let measured =
                    status.get(field).map_or_else(unknown, |_| shown_amount(current("averageValue")));
                (measured, shown_amount(target("averageValue")))
            } else {
                let percent = |value: &Value| format!("{value}%");
                let target = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
                (current("averageUtilization").map_or_else(unknown, percent), target)
            };
            format!("{resource}: {current}/{target}")
        }
    }
}

fn unknown() -> String {
    "<unknown>".to_owned()
}

fn shown_amount(value: Option<&Value>) -> String {
    value.map_or_else(|| "<nil>".to_owned(), amount)
}

fn amount(value: &Value) -> String {
    Quantity::from_json(value).map_or_else(|_| unknown(), |amount| amount.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn column_has_current_and_target_values() {
        let cpu = json!({
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        });
        let pods = json!({
            "type": "Pods",
            "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "100m"}},
        });
        let external = json!({
            "type": "External",
            "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
        });
        let object = |metrics: Value, current: Value| json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": current}});
        assert_eq!(text(&json!({})), "<none>");
        assert_eq!(text(&object(json!([cpu]), json!([]))), "cpu: <unknown>/80%");
        let measured = json!([
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10}}},
            {"type": "Pods", "pods": {"current": {"averageValue": "50m"}}},
        ]);
        assert_eq!(text(&object(json!([cpu, pods]), measured)), "cpu: 10%/80%, 50m/100m");
        assert_eq!(
            text(&object(json!([external, pods, cpu, cpu]), json!([]))),
            "<unknown>/5 (avg), <unknown>/100m + 2 more..."
        );
    }
}
