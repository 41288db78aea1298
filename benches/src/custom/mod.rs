//! Generates CustomResourceDefinitions in the style of widely used operators, each from a number.
//!
//! The same number gives the same definition on every machine. Twenty families differ in the fields of their objects;
//! beyond twenty they repeat in other groups, like an operator installed under several names.

mod family;
mod object;
mod parts;
mod pod;
mod rules;
mod words;

use serde_json::{Map, Value, json};

use family::{FAMILIES, Family};
use words::described;

/// Kinds per operator, all in one group.
const KINDS_PER_OPERATOR: usize = 4;

/// The storage version.
pub const VERSION: &str = "v1";

const OLDER_VERSION: &str = "v1beta1";

/// A label of all definitions of a run.
pub const LABEL: &str = "coracle-bench";

/// Definitions whose groups all end in one domain.
#[derive(Clone, Debug)]
pub struct Operators {
    domain: String,
    label: String,
}

/// One definition.
#[derive(Clone, Debug)]
pub struct Operator<'a> {
    of: &'a Operators,
    family: &'static Family,
    number: usize,
}

impl Operators {
    /// Definitions of a run, distinct from those of other runs.
    pub fn new(run: &str) -> Self {
        Self { domain: format!("{run}.example.com"), label: run.to_owned() }
    }

    /// Number of families.
    pub const FAMILIES: usize = FAMILIES.len();

    /// The definition with this number.
    pub fn get(&self, number: usize) -> Operator<'_> {
        Operator { of: self, family: &FAMILIES[number % FAMILIES.len()], number }
    }

    /// The domain in which all groups end.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Label selector for all definitions of the run.
    pub fn selector(&self) -> String {
        format!("{LABEL}={}", self.label)
    }
}

impl Operator<'_> {
    /// Its API group.
    pub fn group(&self) -> String {
        let family = self.number % FAMILIES.len();
        let operator = FAMILIES[family / KINDS_PER_OPERATOR * KINDS_PER_OPERATOR].domain;
        match self.number / FAMILIES.len() {
            0 => format!("{operator}.{}", self.of.domain),
            again => format!("{operator}-{again}.{}", self.of.domain),
        }
    }

    /// Its plural resource name, as in paths.
    pub fn plural(&self) -> String {
        format!("{}s", self.family.kind.to_lowercase())
    }

    /// The name of the CustomResourceDefinition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }

    /// The CustomResourceDefinition.
    pub fn definition(&self) -> Value {
        let kind = self.family.kind;
        let names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": self.plural(),
            "singular": kind.to_lowercase(),
            "shortNames": [self.family.short_name],
            "categories": ["all", self.family.domain],
        });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.name(),
                "labels": {LABEL: self.of.label, "app.kubernetes.io/part-of": self.family.domain},
                "annotations": {"controller-gen.kubebuilder.io/version": "v0.17.2"},
            },
            "spec": {
                "group": self.group(),
                "names": names,
                "scope": "Namespaced",
                "versions": [self.version(VERSION), self.version(OLDER_VERSION)],
            },
        })
    }

    fn version(&self, name: &str) -> Value {
        let is_older = name == OLDER_VERSION;
        let mut version = json!({
            "name": name,
            "served": true,
            "storage": !is_older,
            "schema": {"openAPIV3Schema": self.schema(is_older)},
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "additionalPrinterColumns": columns(),
            "selectableFields": [{"jsonPath": ".spec.mode"}, {"jsonPath": ".status.phase"}],
        });
        if is_older {
            // If they were equal in both versions, kube-apiserver would look for a common schema.
            version["selectableFields"] = json!([{"jsonPath": ".spec.mode"}]);
            version["deprecated"] = json!(true);
            let group = self.group();
            version["deprecationWarning"] = json!(format!(
                "{group}/{OLDER_VERSION} {0} is deprecated; use {group}/{VERSION} {0}",
                self.family.kind
            ));
        }
        version
    }

    /// The schema of a version; the older one has fewer parts.
    fn schema(&self, is_older: bool) -> Value {
        let mut schema = object(
            [("spec", family::spec(self.family, is_older)), ("status", parts::status())],
            &["spec"],
            &format!("{} {}", self.family.kind, described("root")),
        );
        schema["properties"]["apiVersion"] =
            json!({"type": "string", "description": described("apiVersion")});
        schema["properties"]["kind"] = json!({"type": "string", "description": described("kind")});
        schema["properties"]["metadata"] = json!({"type": "object"});
        schema["x-kubernetes-validations"] = rules::of(&[rules::NAME_LENGTH]);
        schema
    }

    /// A valid object of about one KiB.
    pub fn object(&self, name: &str) -> Value {
        object::object(&self.group(), self.family, name)
    }

    /// Invalid objects, each with the path of the invalid field.
    pub fn wrong_objects(&self, name: &str) -> Vec<(Value, &'static str)> {
        object::wrong(&self.object(name))
    }
}

fn columns() -> Value {
    json!([
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": described("mode")},
        {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Available')].status", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

/// The schema of an object with these fields.
fn object<const N: usize>(fields: [(&str, Value); N], required: &[&str], description: &str) -> Value {
    let properties: Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), with_description(name, schema))).collect();
    let mut schema = json!({"type": "object", "description": description, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn with_description(name: &str, mut schema: Value) -> Value {
    if schema.get("description").is_none() {
        schema["description"] = json!(described(name));
    }
    schema
}

/// Number of lines of a value as controller-gen writes it in YAML: one per field and item, text folded at 80 columns.
pub fn yaml_lines(value: &Value) -> usize {
    lines(value, 0)
}

fn lines(value: &Value, indent: usize) -> usize {
    const COLUMNS: usize = 80;
    match value {
        Value::Object(fields) => {
            fields.values().map(|field| own_line(field) + lines(field, indent + 2)).sum()
        }
        Value::Array(items) => items.iter().map(|item| own_line(item) + lines(item, indent + 2)).sum(),
        Value::String(text) => 1 + text.len() / COLUMNS.saturating_sub(indent).max(COLUMNS / 2),
        _ => 1,
    }
}

/// One if the field's name has a line of its own.
fn own_line(value: &Value) -> usize {
    usize::from(value.is_object() || value.is_array())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn count_rules(value: &Value) -> usize {
        match value {
            Value::Object(fields) => {
                let own =
                    fields.get("x-kubernetes-validations").and_then(Value::as_array).map_or(0, Vec::len);
                own + fields.values().map(count_rules).sum::<usize>()
            }
            Value::Array(items) => items.iter().map(count_rules).sum(),
            _ => 0,
        }
    }

    #[test]
    fn every_definition_is_large_and_has_rules() {
        let operators = Operators::new("test");
        for number in 0..Operators::FAMILIES {
            let definition = operators.get(number).definition();
            let (lines, bytes) = (yaml_lines(&definition), definition.to_string().len());
            assert!((2_000..6_000).contains(&lines), "{number}: {lines} lines");
            assert!((80_000..250_000).contains(&bytes), "{number}: {bytes} bytes");
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let rules = count_rules(version);
                assert!((10..=30).contains(&rules), "{number}: {rules} rules");
            }
        }
        assert!(count_rules(&operators.get(0).definition()["spec"]["versions"][0]) >= 20);
    }

    #[test]
    fn definitions_are_distinct_and_reproducible() {
        let operators = Operators::new("test");
        let names: BTreeSet<String> = (0..500).map(|number| operators.get(number).name()).collect();
        assert_eq!(names.len(), 500);
        let groups: BTreeSet<String> = (0..500).map(|number| operators.get(number).group()).collect();
        assert_eq!(groups.len(), 125);
        assert_eq!(operators.get(7).definition(), Operators::new("test").get(7).definition());
        assert_ne!(operators.get(7).definition()["spec"], operators.get(8).definition()["spec"]);
    }

    #[test]
    fn objects_have_about_one_kib() {
        let operators = Operators::new("test");
        for number in 0..Operators::FAMILIES {
            let bytes = operators.get(number).object("object-1234").to_string().len();
            assert!((950..1_150).contains(&bytes), "{number}: {bytes}");
        }
    }
}
