//! Node affinity and inter-pod affinity of pods.

use std::sync::Arc;

use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::{Operator, Requirement, Selector};
use serde::Deserialize;

use super::node::Node;
use super::selector::{parsed, parsed_or_nothing};
use coracle_runtime::informer::Labels;

/// The only field that node selectors support.
const NAME_FIELD: &str = "metadata.name";

/// A node selector: matches nodes that match at least one term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSelector {
    terms: Box<[NodeSelectorTerm]>,
}

/// A term of a node selector: matches nodes that meet all requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSelectorTerm {
    labels: Selector,
    names: Box<[NameRequirement]>,
    /// The term is invalid and matches nothing.
    invalid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NameRequirement {
    name: Box<str>,
    is: bool,
}

impl NodeSelector {
    pub(crate) fn matches(&self, node: &Node) -> bool {
        self.terms.iter().any(|term| term.matches(&node.labels, &node.metadata.name))
    }

    /// True if labels match, ignoring requirements on the name.
    pub(crate) fn matches_labels(&self, labels: &Labels) -> bool {
        self.terms.iter().any(|term| !term.invalid && term.labels.matches(labels))
    }

    /// The only nodes that can match, if every term requires a name.
    pub(crate) fn names(&self) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        for term in &self.terms {
            names.extend(term.only_names()?);
        }
        names.sort_unstable();
        names.dedup();
        (!self.terms.is_empty()).then_some(names)
    }
}

impl NodeSelectorTerm {
    pub(crate) fn matches(&self, labels: &Labels, name: &str) -> bool {
        let is_named = |requests_of: &NameRequirement| (*requests_of.name == *name) == requests_of.is;
        !self.invalid && self.names.iter().all(is_named) && self.labels.matches(labels)
    }

    fn only_names(&self) -> Option<impl Iterator<Item = &str>> {
        let mut requests_of = self.names.iter().filter(|name| name.is).map(|name| &*name.name);
        let first = requests_of.next()?;
        // Two different required names match no node.
        Some(requests_of.all(|name| name == first).then_some(first).into_iter())
    }
}

/// A term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    /// Names of namespaces, sorted,
    pub(crate) namespaces: Box<[Box<str>]>,
    /// and a selector of further ones.
    pub(crate) namespace_selector: Selector,
    /// Selector of pods.
    pub(crate) selector: Selector,
    /// Node label whose values define the topology domains.
    pub(crate) topology_key: Box<str>,
}

impl Term {
    /// True if the term matches a pod with these labels, in a namespace with the labels `of_namespace`.
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels, of_namespace: &Labels) -> bool {
        let is_listed = || self.namespaces.iter().any(|listed| **listed == *namespace);
        (is_listed() || self.namespace_selector.matches(of_namespace)) && self.selector.matches(labels)
    }
}

/// A preferred term with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weighted<T> {
    pub(crate) weight: i64,
    pub(crate) term: T,
}

/// All affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Affinity {
    pub(crate) node_required: Option<NodeSelector>,
    pub(crate) node_preferred: Box<[Weighted<NodeSelectorTerm>]>,
    pub(crate) required: Box<[Arc<Term>]>,
    pub(crate) preferred: Box<[Weighted<Arc<Term>>]>,
    pub(crate) anti_required: Box<[Arc<Term>]>,
    pub(crate) anti_preferred: Box<[Weighted<Arc<Term>>]>,
}

impl Affinity {
    /// True if there are terms about other pods.
    pub(crate) fn has_pod_terms(&self) -> bool {
        !(self.required.is_empty()
            && self.preferred.is_empty()
            && self.anti_required.is_empty()
            && self.anti_preferred.is_empty())
    }
}

/// The API representation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawAffinity {
    node_affinity: Option<RawNodeAffinity>,
    pod_affinity: Option<RawPodAffinity>,
    pod_anti_affinity: Option<RawPodAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<RawNodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<Vec<RawPreferredNode>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawNodeSelector {
    node_selector_terms: Vec<RawNodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPreferredNode {
    weight: i64,
    preference: RawNodeSelectorTerm,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawNodeSelectorTerm {
    match_expressions: Vec<RawRequirement>,
    match_fields: Vec<RawRequirement>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRequirement {
    key: String,
    operator: String,
    values: Vec<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<RawTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<RawPreferredPod>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawTerm {
    label_selector: Option<LabelSelector>,
    namespaces: Vec<Box<str>>,
    namespace_selector: Option<LabelSelector>,
    topology_key: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPreferredPod {
    weight: i64,
    pod_affinity_term: RawTerm,
}

impl RawAffinity {
    /// Parses it for a pod of `namespace`.
    pub(super) fn parse(self, namespace: &str) -> Affinity {
        let node = self.node_affinity.unwrap_or_default();
        let (with, without) =
            (self.pod_affinity.unwrap_or_default(), self.pod_anti_affinity.unwrap_or_default());
        let preferred = node.preferred.unwrap_or_default().into_iter();
        let wished = preferred.filter(|wish| wish.weight != 0 && !wish.preference.is_empty());
        Affinity {
            node_required: node.required.map(NodeSelector::from),
            node_preferred: wished
                .map(|wish| Weighted { weight: wish.weight, term: wish.preference.into() })
                .collect(),
            required: terms(with.required, namespace),
            preferred: weighted(with.preferred, namespace),
            anti_required: terms(without.required, namespace),
            anti_preferred: weighted(without.preferred, namespace),
        }
    }
}

fn terms(raw: Vec<RawTerm>, namespace: &str) -> Box<[Arc<Term>]> {
    raw.into_iter().map(|term| Arc::new(term.parse(namespace))).collect()
}

fn weighted(raw: Vec<RawPreferredPod>, namespace: &str) -> Box<[Weighted<Arc<Term>>]> {
    let parse = |wish: RawPreferredPod| Weighted {
        weight: wish.weight,
        term: Arc::new(wish.pod_affinity_term.parse(namespace)),
    };
    raw.into_iter().map(parse).collect()
}

impl RawTerm {
    fn parse(self, own_namespace: &str) -> Term {
        let mut namespaces = self.namespaces;
        if namespaces.is_empty() && self.namespace_selector.is_none() {
            namespaces.push(own_namespace.into());
        }
        namespaces.sort_unstable();
        Term {
            namespaces: namespaces.into(),
            namespace_selector: parsed_or_nothing(self.namespace_selector.as_ref()),
            selector: self.label_selector.as_ref().map_or_else(Selector::nothing, parsed),
            topology_key: self.topology_key,
        }
    }
}

impl From<RawNodeSelector> for NodeSelector {
    fn from(raw: RawNodeSelector) -> Self {
        let terms = raw.node_selector_terms.into_iter().filter(|term| !term.is_empty());
        Self { terms: terms.map(NodeSelectorTerm::from).collect() }
    }
}

impl RawNodeSelectorTerm {
    /// An empty term matches nothing.
    fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }
}

impl From<RawNodeSelectorTerm> for NodeSelectorTerm {
    fn from(raw: RawNodeSelectorTerm) -> Self {
        let labels: Option<Vec<_>> =
            raw.match_expressions.into_iter().map(RawRequirement::of_label).collect();
        let names: Option<Vec<_>> = raw.match_fields.into_iter().map(RawRequirement::of_name).collect();
        let invalid = labels.is_none() || names.is_none();
        Self {
            labels: Selector::new(labels.unwrap_or_default()),
            names: names.unwrap_or_default().into(),
            invalid,
        }
    }
}

impl RawRequirement {
    fn of_label(self) -> Option<Requirement> {
        let operator = match &*self.operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::GreaterThan,
            "Lt" => Operator::LessThan,
            _ => return None,
        };
        Requirement::new(&self.key, operator, self.values).ok()
    }

    fn of_name(self) -> Option<NameRequirement> {
        let is = match &*self.operator {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        let [name]: [Box<str>; 1] = self.values.try_into().ok()?;
        (self.key == NAME_FIELD).then_some(NameRequirement { name, is })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(terms: serde_json::Value) -> NodeSelector {
        let raw: RawNodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        raw.into()
    }

    fn node(name: &str, labels: &[(&str, &str)]) -> Node {
        let mut node = Node { labels: labels.iter().copied().collect(), ..Node::default() };
        node.metadata.name = name.into();
        node
    }

    #[test]
    fn node_selector_terms_are_ored_and_their_requirements_anded() {
        let node = node("n1", &[("zone", "a"), ("cores", "8")]);
        for (terms, expected) in [
            (json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]), true),
            (json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]), false),
            (json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}]), true),
            (json!([{"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["4"]}]}]), false),
            (
                json!([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}],
                     "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]),
                false,
            ),
            (json!([{}]), false),
            (json!([]), false),
            (json!([{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]), false),
        ] {
            assert_eq!(selector(terms.clone()).matches(&node), expected, "{terms}");
        }
    }

    #[test]
    fn required_names_are_known_only_if_every_term_has_one() {
        let named = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        assert_eq!(selector(json!([named("b"), named("a")])).names(), Some(vec!["a", "b"]));
        let label = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(selector(json!([named("b"), label])).names(), None);
        let both = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]},
                                          {"key": "metadata.name", "operator": "In", "values": ["b"]}]});
        assert_eq!(selector(json!([both])).names(), Some(vec![]));
    }

    #[test]
    fn term_without_namespaces_applies_to_the_namespace_of_the_pod() {
        let raw: RawAffinity = serde_json::from_value(json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}},
            {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}},
            {"topologyKey": "zone", "namespaces": ["z", "y"]},
        ]}}))
        .unwrap();
        let affinity = raw.parse("mine");
        let [own, all, listed] = &*affinity.anti_required else { panic!("three terms") };
        let (app, none) = ([("app", "db")].into_iter().collect::<Labels>(), Labels::default());
        assert!(own.matches("mine", &app, &none) && !own.matches("other", &app, &none));
        assert!(!own.matches("mine", &none, &none));
        assert!(all.matches("any", &none, &none));
        assert!(!listed.matches("y", &app, &none), "no selector selects no pod");
        assert_eq!(listed.namespaces.len(), 2);
        assert!(affinity.has_pod_terms());
    }
}
