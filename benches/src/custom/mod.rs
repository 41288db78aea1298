//! CustomResourceDefinitions in the style of widely used operators, made of nothing but a number.
//!
//! The same number gives the same definition on every machine. Twenty families differ in what their
//! objects consist of; beyond twenty they come again in other groups, as an operator does that is
//! installed under several names.

mod family;
mod object;
mod parts;
mod pod;
mod rules;
mod words;

use serde_json::{Map, Value, json};

use family::{FAMILIES, Family};
use words::described;

/// How many kinds an operator brings, all in one group.
const KINDS_PER_OPERATOR: usize = 4;

/// The version that objects are stored in.
pub const VERSION: &str = "v1";

const OLDER_VERSION: &str = "v1beta1";

/// The label that all definitions of one run have.
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
    /// Those of one run, which no other run has.
    pub fn new(run: &str) -> Self {
        Self { domain: format!("{run}.example.com"), label: run.to_owned() }
    }

    /// How many families there are.
    pub const FAMILIES: usize = FAMILIES.len();

    /// The definition of a number.
    pub fn get(&self, number: usize) -> Operator<'_> {
        Operator { of: self, family: &FAMILIES[number % FAMILIES.len()], number }
    }

    /// What all their groups end in.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// What selects all of them.
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

    /// The resource, in paths.
    pub fn plural(&self) -> String {
        format!("{}s", self.family.kind.to_lowercase())
    }

    /// The name of the definition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }

    /// The definition itself.
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
            // Were they the same in both versions, upstream would look for one schema of both.
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

    /// The schema of a version; an older one has fewer parts.
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

    /// An object that its definition allows, of about a kibibyte.
    pub fn object(&self, name: &str) -> Value {
        object::object(&self.group(), self.family, name)
    }

    /// Objects that it does not allow, each with the field that is wrong.
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

/// How many lines a value takes as controller-gen writes it in YAML: one for each field and each
/// item, and text folded at 80 columns.
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

/// Whether a field's name has a line of its own.
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
    fn definitions_differ_and_stay() {
        let operators = Operators::new("test");
        let names: BTreeSet<String> = (0..500).map(|number| operators.get(number).name()).collect();
        assert_eq!(names.len(), 500);
        let groups: BTreeSet<String> = (0..500).map(|number| operators.get(number).group()).collect();
        assert_eq!(groups.len(), 125);
        assert_eq!(operators.get(7).definition(), Operators::new("test").get(7).definition());
        assert_ne!(operators.get(7).definition()["spec"], operators.get(8).definition()["spec"]);
    }

    #[test]
    fn an_object_has_about_a_kibibyte() {
        let operators = Operators::new("test");
        for number in 0..Operators::FAMILIES {
            let bytes = operators.get(number).object("object-1234").to_string().len();
            assert!((950..1_150).contains(&bytes), "{number}: {bytes}");
        }
    }
}
