//! Node selector and required node affinity of a pod template.

use coracle_meta::selector::labels::{Operator, Requirement, Selector};
use serde::Deserialize;

use crate::view::Node;

/// Requirements on a node.
#[derive(Clone, Debug, Default)]
pub(super) struct RequiredNode {
    /// From `nodeSelector`.
    labels: Selector,
    /// Any of these must match, if there are terms at all.
    terms: Option<Box<[Term]>>,
}

/// A node selector term.
#[derive(Clone, Debug)]
struct Term {
    labels: Selector,
    /// Node names, and whether the node must have the name or must not have it.
    names: Box<[(Box<str>, bool)]>,
}

/// The wire format.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wire {
    node_selector: std::collections::BTreeMap<String, String>,
    affinity: Affinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<WireTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerm {
    match_expressions: Vec<Expression>,
    match_fields: Vec<Expression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl From<Wire> for RequiredNode {
    fn from(wire: Wire) -> Self {
        let labels = wire.node_selector.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let required = wire.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
        // Invalid and empty terms match no node.
        let terms =
            |selector: NodeSelector| selector.node_selector_terms.into_iter().filter_map(term).collect();
        Self { labels: Selector::from_set(labels), terms: required.map(terms) }
    }
}

fn term(wire: WireTerm) -> Option<Term> {
    if wire.match_expressions.is_empty() && wire.match_fields.is_empty() {
        return None;
    }
    let labels = wire.match_expressions.iter().map(requirement).collect::<Option<Vec<_>>>()?;
    let names = wire.match_fields.into_iter().map(name).collect::<Option<_>>()?;
    Some(Term { labels: Selector::new(labels), names })
}

fn requirement(expression: &Expression) -> Option<Requirement> {
    let operator = match expression.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => return None,
    };
    Requirement::new(&expression.key, operator, expression.values.iter().map(String::as_str)).ok()
}

/// `metadata.name` with one value, the only supported field.
fn name(expression: Expression) -> Option<(Box<str>, bool)> {
    let is_wanted = match expression.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let [name] = <[String; 1]>::try_from(expression.values).ok()?;
    (expression.key == "metadata.name").then(|| (name.into(), is_wanted))
}

impl RequiredNode {
    pub(super) fn fits(&self, node: &Node) -> bool {
        let fits_term = |term: &Term| {
            let name = node.metadata.name();
            let mut names = term.names.iter();
            names.all(|(wanted, is_wanted)| (**wanted == *name) == *is_wanted)
                && term.labels.matches(&node.metadata.labels)
        };
        self.labels.matches(&node.metadata.labels)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(fits_term))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fits(spec: Value) -> bool {
        let labels = json!({"zone": "a", "cores": "8"});
        let node = serde_json::from_value(json!({"metadata": {"name": "n1", "labels": labels}})).unwrap();
        RequiredNode::from(serde_json::from_value::<Wire>(spec).unwrap()).fits(&node)
    }

    fn required(terms: Value) -> Value {
        let selector = json!({"nodeSelectorTerms": terms});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}})
    }

    #[test]
    fn node_requirements_match_labels_and_names() {
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let field = |operator: &str, name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
        assert!(fits(json!({})) && fits(json!({"nodeSelector": {"zone": "a"}})));
        assert!(!fits(json!({"nodeSelector": {"zone": "b"}})));
        for (term, expected) in [
            (expression("zone", "In", json!(["a", "b"])), true),
            (expression("zone", "NotIn", json!(["a"])), false),
            (expression("other", "NotIn", json!(["a"])), true),
            (expression("zone", "Exists", json!([])), true),
            (expression("zone", "DoesNotExist", json!([])), false),
            (expression("cores", "Gt", json!(["4"])), true),
            (expression("cores", "Lt", json!(["4"])), false),
            (expression("zone", "Near", json!(["a"])), false),
            (field("In", "n1"), true),
            (field("In", "n2"), false),
            (field("NotIn", "n2"), true),
            (json!({}), false),
        ] {
            assert_eq!(fits(required(json!([term]))), expected, "{term}");
        }
        assert!(!fits(required(json!([]))), "one of no terms never fits");
        assert!(fits(required(json!([field("In", "n2"), field("In", "n1")]))), "any of several");
    }
}
