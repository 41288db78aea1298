//! Tests of schemas and objects against results recorded from Kubernetes 1.36.
//!
//! A case is a schema and an object, optionally with the object it replaces; `status` is a write to
//! the status only. The recording contains unknown fields, the object after pruning and defaulting,
//! and the sorted errors, those of rules after the others.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use coracle_crd::{Metadata, Structural};
use coracle_meta::field::ErrorList;
use serde_json::{Map, Value};

#[derive(Default)]
struct Case<'a> {
    name: &'a str,
    schema: &'a str,
    old: Option<&'a str>,
    object: &'a str,
    is_status: bool,
    expected: Vec<&'a str>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap();
        if word == "==" {
            cases.push(Case { name: rest, ..Case::default() });
            continue;
        }
        let case = cases.last_mut().unwrap();
        match word {
            "schema" => case.schema = rest,
            "old" => case.old = Some(rest),
            "object" => case.object = rest,
            "status" => (case.object, case.is_status) = (rest, true),
            // Costs are compared in the unit tests, where they are accessible.
            "cost" => {}
            _ => case.expected.push(line),
        }
    }
    cases
}

/// Decodes the metadata fields that the cases use.
fn read_metadata(found: &Value) -> Result<Metadata, String> {
    let Value::Object(fields) = found else { return Err("not an object".to_owned()) };
    let mut read = Metadata { value: Value::Object(Map::new()), unknown: Vec::new() };
    for (name, field) in fields {
        let mut field = field.clone();
        match name.as_str() {
            "name" | "namespace" | "labels" => {}
            "ownerReferences" => {
                for (index, owner) in field.as_array_mut().unwrap().iter_mut().enumerate() {
                    owner.as_object_mut().unwrap().retain(|name, _| {
                        let is_known = matches!(name.as_str(), "apiVersion" | "kind" | "name" | "uid");
                        if !is_known {
                            read.unknown.push(format!("ownerReferences[{index}].{name}"));
                        }
                        is_known
                    });
                }
            }
            _ => {
                read.unknown.push(name.clone());
                continue;
            }
        }
        read.value[name] = field;
    }
    Ok(read)
}

/// Formats errors as in the recording.
fn lines(errors: &ErrorList) -> Vec<String> {
    let mut lines: Vec<String> = errors
        .iter()
        .map(|error| format!("error {} {}", error.kind.reason(), error.to_string().replace('\n', "\\n")))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

fn run(case: &Case<'_>) -> Vec<String> {
    let schema = Structural::parse(&serde_json::from_str(case.schema).unwrap()).unwrap();
    let mut object: Value = serde_json::from_str(case.object).unwrap();
    let unknown = match schema.conform(&mut object, &read_metadata, false) {
        Ok(unknown) => unknown,
        Err(error) => return vec![format!("refused {error}")],
    };
    let mut lines_found: Vec<String> = unknown.iter().map(|path| format!("unknown {path}")).collect();
    schema.set_defaults(&mut object);
    lines_found.push(format!("result {}", coracle_meta::field::json_text(&object)));
    let mut errors = ErrorList::new();
    let old: Option<Value> = case.old.map(|old| serde_json::from_str(old).unwrap());
    match &old {
        None => schema.check_create(&object, &mut errors),
        Some(old) if case.is_status => schema.check_status_update(&object, old, &mut errors),
        Some(old) => schema.check_update(&object, old, &mut errors),
    }
    lines_found.extend(lines(&errors));
    lines_found
}

fn check(text: &str) {
    let mut wrong = Vec::new();
    for mut case in cases(text) {
        let found = run(&case);
        // The origin of an error (schema or rule) is not visible.
        let errors =
            case.expected.iter().position(|line| line.starts_with("error ") || line.starts_with("rule "));
        let errors: Vec<String> = case
            .expected
            .split_off(errors.unwrap_or(case.expected.len()))
            .into_iter()
            .map(|line| line.strip_prefix("rule ").map_or(line.to_owned(), |rest| format!("error {rest}")))
            .collect();
        let mut expected: Vec<String> = case.expected.iter().map(ToString::to_string).collect();
        let mut errors = errors;
        errors.sort();
        expected.extend(errors);
        if found != expected {
            wrong.push(format!(
                "{}\n  schema {}\n  object {}\n  expected\n    {}\n  found\n    {}",
                case.name,
                case.schema,
                case.object,
                expected.join("\n    "),
                found.join("\n    ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn validation_results_match_recording() {
    check(include_str!("data/objects.txt"));
}

#[test]
fn ratcheted_violations_return_warnings() {
    let rule = serde_json::json!([{"rule": "self > 5", "message": "too small"}]);
    let schema = serde_json::json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": rule},
        "b": {"type": "integer"},
    }});
    let schema = Structural::parse(&schema).unwrap();
    let (old, new) = (serde_json::json!({"a": 1, "b": 1}), serde_json::json!({"a": 1, "b": 2}));
    let mut errors = ErrorList::new();
    schema.check_update(&new, &old, &mut errors);
    assert!(errors.is_empty());
    assert_eq!(schema.update_warnings(&new, &old), ["a: Invalid value: 1: too small"]);
}

#[test]
fn rule_results_match_recording() {
    check(include_str!("data/rules.txt"));
}
