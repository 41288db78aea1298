//! Schemas, and kube-apiserver's errors for them.

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::options::SchemaOptions;
use super::schema;

fn faults(text: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(text).expect("schemas are JSON");
    let mut errors = ErrorList::new();
    schema::check(&document, SchemaOptions::NEW, &Path::root("spec.validation.openAPIV3Schema"), &mut errors);
    let line = |error: &coracle_meta::field::FieldError| {
        format!("error {} {}", error.kind.reason(), error.to_string().replace('\n', "\\n"))
    };
    let mut lines: Vec<String> = errors.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn schemas_have_the_errors_of_kube_apiserver() {
    let mut wrong = Vec::new();
    for case in include_str!("schemas.txt").split("\n\n").filter(|case| !case.trim().is_empty()) {
        let mut lines = case.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let name = lines.next().unwrap_or_default();
        let text = lines.next().and_then(|line| line.strip_prefix("schema ")).expect("a case has a schema");
        let expected: Vec<&str> = lines.collect();
        let found = faults(text);
        if found != expected {
            let (expected, found) = (expected.join("\n    "), found.join("\n    "));
            wrong.push(format!("{name}\n  {text}\n  expected\n    {expected}\n  found\n    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
