//! Definitions, some with the one that they replace, and kube-apiserver's errors for them.

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::custom_resource_definition::CustomResourceDefinition;
use crate::kind::Kind;

fn results(new: &str, old: Option<&str>) -> Vec<String> {
    let read = |text: &str| -> Value {
        let mut definition = serde_json::from_str(text).expect("definitions are JSON");
        CustomResourceDefinition.set_defaults(&mut definition);
        definition
    };
    let (new, old) = (read(new), old.map(read));
    let mut errors = ErrorList::new();
    match &old {
        None => CustomResourceDefinition.validate(&new, &mut errors),
        Some(old) => {
            CustomResourceDefinition.revalidate(&new, old, &mut errors);
            CustomResourceDefinition.validate_update(&new, old, &mut errors);
        }
    }
    let mut lines: Vec<String> = errors
        .iter()
        .map(|error| format!("error {} {}", error.kind.reason(), error.to_string().replace('\n', "\\n")))
        .collect();
    lines.sort();
    lines.dedup();
    let mut warnings = CustomResourceDefinition.warnings(&new, old.as_ref());
    warnings.sort();
    lines.extend(warnings.into_iter().map(|warning| format!("warning {warning}")));
    lines
}

#[test]
fn definitions_have_the_errors_of_kube_apiserver() {
    let mut wrong = Vec::new();
    for case in include_str!("definitions.txt").split("\n\n").filter(|case| !case.trim().is_empty()) {
        let mut lines = case.lines().peekable();
        let name = lines.next().unwrap_or_default();
        let old = lines.next_if(|line| line.starts_with("old ")).map(|line| &line[4..]);
        let new = lines.next().and_then(|line| line.strip_prefix("new ")).expect("a case has a definition");
        let expected: Vec<&str> = lines.collect();
        let found = results(new, old);
        if found != expected {
            let (expected, found) = (expected.join("\n    "), found.join("\n    "));
            wrong.push(format!("{name}\n  expected\n    {expected}\n  found\n    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
