//! Warnings about rule annotations that are unknown or invalid, when an object is written.

use coracle_apiserver::admission::{
    Attributes, BoxFuture, Operation, Plugin, Result, Rule, nothing_to_say, view,
};
use coracle_fake_node::{RuleScope, check_rules};
use serde_json::Value;

/// The admission plugin.
pub(crate) struct RuleWarnings;

const WRITES: [Operation; 2] = [Operation::Create, Operation::Update];

/// The path of pod metadata in objects that define pods.
const RESOURCES: &[(&str, &str, RuleScope, &[&str])] = &[
    ("", "nodes", RuleScope::Node, &["metadata"]),
    ("", "pods", RuleScope::Pod, &["metadata"]),
    ("", "podtemplates", RuleScope::Pod, &["template", "metadata"]),
    ("", "replicationcontrollers", RuleScope::Pod, &["spec", "template", "metadata"]),
    ("apps", "daemonsets", RuleScope::Pod, &["spec", "template", "metadata"]),
    ("apps", "deployments", RuleScope::Pod, &["spec", "template", "metadata"]),
    ("apps", "replicasets", RuleScope::Pod, &["spec", "template", "metadata"]),
    ("apps", "statefulsets", RuleScope::Pod, &["spec", "template", "metadata"]),
    ("batch", "cronjobs", RuleScope::Pod, &["spec", "jobTemplate", "spec", "template", "metadata"]),
    ("batch", "jobs", RuleScope::Pod, &["spec", "template", "metadata"]),
];

impl Plugin for RuleWarnings {
    fn name(&self) -> &str {
        "SimulatedNodeRules"
    }

    fn validates(&self) -> Vec<Rule> {
        RESOURCES.iter().map(|(group, resource, _, _)| Rule::new(*group, *resource, &WRITES)).collect()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        warnings.extend(of_object(&attributes.write.kind.declaration().plural, object));
        nothing_to_say()
    }
}

fn of_object(plural: &str, object: &Value) -> Vec<String> {
    let Some((_, _, scope, path)) = RESOURCES.iter().find(|(_, resource, _, _)| *resource == plural) else {
        return Vec::new();
    };
    let annotations = view::at(object, path).and_then(|metadata| metadata.get("annotations")?.as_object());
    let annotations = annotations.into_iter().flatten();
    check_rules(annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))), *scope)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_of_pods_templates_and_nodes_are_checked() {
        let metadata = json!({"annotations": {"fake.coracle.dev/finish-aftr": "1s", "other": "x"}});
        let template = json!({"template": {"metadata": metadata}});
        for (plural, object) in [
            ("pods", json!({"metadata": metadata})),
            ("nodes", json!({"metadata": metadata})),
            ("podtemplates", template.clone()),
            ("deployments", json!({"spec": template})),
            ("cronjobs", json!({"spec": {"jobTemplate": {"spec": template}}})),
        ] {
            let warnings = of_object(plural, &object);
            assert!(warnings.len() == 1 && warnings[0].contains("finish-after"), "{plural}: {warnings:?}");
        }
        assert!(
            of_object("deployments", &json!({"metadata": metadata})).is_empty(),
            "the deployment's own annotations are ignored"
        );
        assert!(of_object("pods", &json!({"metadata": {}})).is_empty());
    }
}
