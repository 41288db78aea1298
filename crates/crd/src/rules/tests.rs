//! Tests of rules against results and costs recorded from Kubernetes.

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::{Evaluation, Ratchet};
use crate::Structural;
use crate::validate::Correlated;

struct Case<'a> {
    name: &'a str,
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> Case<'a> {
    fn first(&self, word: &str) -> Option<&'a str> {
        self.all(word).next()
    }

    fn all(&self, word: &str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |(found, _)| *found == word).map(|(_, rest)| *rest)
    }

    fn json(&self, word: &str) -> Option<Value> {
        self.first(word).map(|text| serde_json::from_str(text).unwrap())
    }
}

fn cases(text: &str) -> impl Iterator<Item = Case<'_>> {
    text.split("\n\n").filter(|case| !case.trim().is_empty()).map(|case| {
        let mut lines = case.lines().filter_map(|line| line.split_once(' '));
        let (_, name) = lines.next().unwrap();
        Case { name, lines: lines.collect() }
    })
}

/// Returns the errors and the cost; `None` if the budget was exceeded.
fn run(case: &Case<'_>) -> (Vec<String>, Option<u64>) {
    let schema = Structural::parse(&case.json("schema").unwrap()).unwrap();
    let (object, old) = (case.json("result").unwrap(), case.json("old"));
    let correlated = old.as_ref().map(|old| Correlated::new(schema.root(), &object, old));
    let mut errors = ErrorList::new();
    let mut evaluation = Evaluation::new(&mut errors);
    let ratchet = correlated.map(Ratchet::new).unwrap_or_default();
    let rules = schema.rules().unwrap();
    rules.evaluate(schema.root(), &object, old.as_ref(), ratchet, &Path::NIL, &mut evaluation);
    let cost = (!evaluation.is_over).then(|| evaluation.budget.spent());
    let line = |error: &coracle_meta::field::FieldError| {
        format!("{} {}", error.kind.reason(), error.to_string().replace('\n', "\\n"))
    };
    let mut lines: Vec<String> = errors.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    (lines, cost)
}

#[test]
fn rule_errors_and_costs_match_recording() {
    let mut wrong = Vec::new();
    for case in cases(include_str!("../../tests/data/rules.txt")) {
        // Cases without cost exceeded the budget in Kubernetes.
        let Some(cost) = case.first("cost") else { continue };
        let expected: Vec<&str> = case.all("rule").collect();
        let (found, found_cost) = run(&case);
        let costs_differ = found_cost.is_some_and(|found| found.to_string() != cost);
        if found != expected || costs_differ {
            wrong.push(format!(
                "{}\n  {}\n  {}\n  expected {cost}\n    {}\n  found {found_cost:?}\n    {}",
                case.name,
                case.first("schema").unwrap_or_default(),
                case.first("result").unwrap_or_default(),
                expected.join("\n    "),
                found.join("\n    ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
