//! NetworkPolicy: allowed incoming and outgoing traffic of pods.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::kinds::core::{label_selector, rules};
use crate::kinds::ratchet;
use crate::view;

/// The two directions: the field with the rules, and the field with the peers of each rule.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];

/// [`Kind`] of NetworkPolicy objects.
pub struct NetworkPolicy;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["netpol"]),
    generation: Generation::Spec,
    columns: vec![Column::name(), Column::text("Pod-Selector", "label selector of the pods"), Column::age()],
    storage_version_hash: "YpfwF18m1G8=".into(),
    ..Declaration::new(
        "networking.k8s.io",
        &["v1"],
        "NetworkPolicy",
        "networkpolicies",
        "networkpolicy",
        Scope::Namespaced,
    )
});

impl Kind for NetworkPolicy {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        for (direction, _) in DIRECTIONS {
            let rules = object.pointer_mut(&format!("/spec/{direction}"));
            let Some(Value::Array(rules)) = rules else { continue };
            for rule in rules {
                let Some(Value::Array(ports)) = rule.get_mut("ports") else { continue };
                for port in ports {
                    view::set_default(port, "protocol", || "TCP".into());
                }
            }
        }
        if view::items(object, &["spec", "policyTypes"]).is_empty() {
            let egress = !view::items(object, &["spec", "egress"]).is_empty();
            object["spec"]["policyTypes"] = if egress { json!(POLICY_TYPES) } else { json!(["Ingress"]) };
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        if let Some(selector) = view::at(object, &["spec", "podSelector"]) {
            label_selector::validate(selector, &path.child("podSelector"), errors);
        }
        for (direction, peers) in DIRECTIONS {
            let list = path.child(direction);
            for (index, rule) in view::items(object, &["spec", direction]).iter().enumerate() {
                check_rule(rule, peers, &list.index(index), errors);
            }
        }
        check_policy_types(object, &path.child("policyTypes"), errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let root = Path::root("spec");
        for (direction, peers) in DIRECTIONS {
            let rules_path = root.child(direction);
            for (index, rule) in view::items(new, &["spec", direction]).iter().enumerate() {
                let rule_path = rules_path.index(index);
                let peers_path = rule_path.child(peers);
                for (index, peer) in view::items(rule, &[peers]).iter().enumerate() {
                    if let Some(block) = peer.get("ipBlock") {
                        let peer_path = peers_path.index(index);
                        warnings.extend(block_warnings(block, &peer_path.child("ipBlock")));
                    }
                }
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let selector = view::at(object, &["spec", "podSelector"]).map(label_selector::to_text);
        let selector = selector.unwrap_or_else(|| "<none>".to_owned());
        vec![view::name(object).into(), selector.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        let valid = &self.samples().valid[0];
        let block = |cidr: &str| json!([{"from": [{"ipBlock": {"cidr": cidr}}]}]);
        vec![
            crate::samples::Stored::of(
                valid,
                &json!({"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]}}}),
            ),
            crate::samples::Stored::of(valid, &json!({"spec": {"ingress": block("10.0.0.1/8")}})).refusing(
                json!({"spec": {"ingress": block("10.0.0.2/8")}}),
                "spec.ingress[0].from[0].ipBlock.cidr",
                "FieldValueInvalid",
            ),
        ]
    }
}

fn check_rule(rule: &Value, peers: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("ports");
    for (index, port) in view::items(rule, &["ports"]).iter().enumerate() {
        check_port(port, &list.index(index), errors);
    }
    let list = path.child(peers);
    for (index, peer) in view::items(rule, &[peers]).iter().enumerate() {
        check_peer(peer, &list.index(index), errors);
    }
}

fn check_port(port: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(protocol) = port.get("protocol").and_then(Value::as_str) {
        rules::one_of(protocol, &["TCP", "UDP", "SCTP"], &path.child("protocol"), errors);
    }
    let number_path = path.child("port");
    let end_path = path.child("endPort");
    let end = view::integer(port, &["endPort"]);
    match (port.get("port"), end) {
        (None, None) => {}
        (None, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(&end_path, end, detail));
        }
        (Some(Value::String(port_name)), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&end_path, end, detail));
            }
            rules::text(port_name, name::port_name, &number_path, errors);
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or(0);
            rules::port_number(number, &number_path, errors);
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&end_path, number, detail));
                }
                rules::port_number(end, &end_path, errors);
            }
        }
    }
}

fn check_peer(peer: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.get(field) {
            count += 1;
            label_selector::validate(selector, &path.child(field), errors);
        }
    }
    if let Some(block) = peer.get("ipBlock") {
        check_block(block, &path.child("ipBlock"), errors);
        if count > 0 {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
    } else if count == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
}

fn check_block(block: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let cidr = view::text(block, &["cidr"]);
    let cidr_path = path.child("cidr");
    if cidr.is_empty() {
        errors.push(FieldError::required(&cidr_path, ""));
        return;
    }
    errors.ratcheted(ratchet::CIDR, |errors| {
        rules::cidr(cidr, &cidr_path, errors);
    });
    if name::parse_cidr_sloppy(cidr).is_none() {
        return;
    }
    let list = path.child("except");
    for (index, except) in view::items(block, &["except"]).iter().enumerate() {
        let except = except.as_str().unwrap_or_default();
        let path = list.index(index);
        errors.ratcheted(ratchet::CIDR, |errors| {
            rules::cidr(except, &path, errors);
        });
        if is_strictly_within(except, cidr) == Some(false) {
            errors.push(FieldError::invalid(&path, except, "must be a strict subset of `cidr`"));
        }
    }
}

/// Returns true if a CIDR block is a proper part of another; `None` if either is invalid.
fn is_strictly_within(inner: &str, outer: &str) -> Option<bool> {
    let (inner, outer) = (name::parse_cidr_sloppy(inner)?, name::parse_cidr_sloppy(outer)?);
    if inner.bits != outer.bits || inner.prefix <= outer.prefix {
        return Some(false);
    }
    let mut widened = inner;
    widened.prefix = outer.prefix;
    Some(widened.first() == outer.first())
}

fn check_policy_types(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let types = view::items(object, &["spec", "policyTypes"]);
    if types.len() > POLICY_TYPES.len() {
        let value = BadValue::json(&types.into());
        errors.push(FieldError::invalid(path, value, "may not specify more than two policyTypes"));
        return;
    }
    for (index, policy_type) in types.iter().enumerate() {
        rules::one_of(policy_type.as_str().unwrap_or_default(), POLICY_TYPES, &path.index(index), errors);
    }
}

fn block_warnings(block: &Value, path: &Path<'_>) -> Vec<String> {
    let mut warnings = name::cidr_warnings(&path.child("cidr"), view::text(block, &["cidr"]));
    let list = path.child("except");
    for (index, except) in view::items(block, &["except"]).iter().enumerate() {
        warnings.extend(name::cidr_warnings(&list.index(index), except.as_str().unwrap_or_default()));
    }
    warnings
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "sample", "namespace": "default"}, "spec": spec});
    let peer = |peer: Value| with(json!({"podSelector": {}, "ingress": [{"from": [peer]}]}));
    let port = |port: Value| with(json!({"podSelector": {}, "egress": [{"ports": [port]}]}));
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(json!({
                "podSelector": {"matchLabels": {"app": "db"}},
                "ingress": [{
                    "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {}, "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}],
                    "ports": [{"port": 6379}, {"port": "dns", "protocol": "UDP"}, {"port": 32000, "endPort": 32768}],
                }],
                "egress": [{}],
            })),
            with(json!({"podSelector": {}})),
        ],
        invalid: vec![
            Refused::new(
                with(json!({"podSelector": {"matchLabels": {"a b": "c"}}})),
                "spec.podSelector.matchLabels",
                invalid,
            ),
            Refused::new(peer(json!({})), "spec.ingress[0].from[0]", "FieldValueRequired"),
            Refused::new(
                peer(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
                "spec.ingress[0].from[0]",
                "FieldValueForbidden",
            ),
            Refused::new(
                peer(json!({"ipBlock": {}})),
                "spec.ingress[0].from[0].ipBlock.cidr",
                "FieldValueRequired",
            ),
            Refused::new(
                peer(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
                "spec.ingress[0].from[0].ipBlock.except[0]",
                invalid,
            ),
            Refused::new(port(json!({"port": 0})), "spec.egress[0].ports[0].port", invalid),
            Refused::new(port(json!({"port": 2, "endPort": 1})), "spec.egress[0].ports[0].endPort", invalid),
            Refused::new(port(json!({"endPort": 1})), "spec.egress[0].ports[0].endPort", invalid),
            Refused::new(
                port(json!({"protocol": "tcp"})),
                "spec.egress[0].ports[0].protocol",
                "FieldValueNotSupported",
            ),
            Refused::new(
                with(json!({"podSelector": {}, "policyTypes": ["Some"]})),
                "spec.policyTypes[0]",
                "FieldValueNotSupported",
            ),
        ],
        updates: vec![json!({"spec": {"egress": null}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"ingress": [{"from": [{}]}]}}),
            "spec.ingress[0].from[0]",
            "FieldValueRequired",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_types_default_by_the_rules() {
        let types = |spec: Value| {
            let mut policy = json!({"spec": spec});
            NetworkPolicy.set_defaults(&mut policy);
            policy["spec"]["policyTypes"].clone()
        };
        assert_eq!(types(json!({})), json!(["Ingress"]));
        assert_eq!(types(json!({"egress": [{}]})), json!(["Ingress", "Egress"]));
        assert_eq!(types(json!({"egress": [], "policyTypes": ["Egress"]})), json!(["Egress"]));
    }

    #[test]
    fn block_is_strictly_within_larger_block() {
        assert_eq!(is_strictly_within("10.1.0.0/16", "10.0.0.0/8"), Some(true));
        assert_eq!(is_strictly_within("10.0.0.0/8", "10.0.0.0/8"), Some(false));
        assert_eq!(is_strictly_within("fd00::/64", "10.0.0.0/8"), Some(false));
        assert_eq!(is_strictly_within("x", "10.0.0.0/8"), None);
    }

    #[test]
    fn table_row_shows_the_selector() {
        let cell = |spec: Value| NetworkPolicy.cells(&json!({"spec": spec}), 0)[1].clone();
        assert_eq!(cell(json!({})), "<none>");
        assert_eq!(cell(json!({"podSelector": {"matchLabels": {"a": "b"}}})), "a=b");
    }
}
