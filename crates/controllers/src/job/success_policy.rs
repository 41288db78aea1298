//! Evaluates the success policy of a job.

use super::indexes::Indexes;
use crate::view::{Job, SuccessRule};

/// The condition's message if a rule is met.
pub(super) fn met(job: &Job, succeeded: &Indexes) -> Option<String> {
    let completions = job.spec.completions?;
    if succeeded.is_empty() {
        return None;
    }
    let rules = job.spec.success_policy.iter().flat_map(|policy| policy.rules.iter());
    let index = rules.enumerate().find(|(_, rule)| is_met(rule, succeeded, completions))?.0;
    Some(format!("Matched rules at index {index}"))
}

fn is_met(rule: &SuccessRule, succeeded: &Indexes, completions: i32) -> bool {
    let enough = |count: i32| rule.succeeded_count.is_some_and(|wanted| count >= wanted);
    let Some(wanted) = &rule.succeeded_indexes else { return enough(succeeded.len()) };
    let wanted = Indexes::parse(wanted, completions);
    let common = wanted.common(succeeded);
    !wanted.is_empty() && (common == wanted.len() || enough(common))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn one_matching_rule_is_enough() {
        let met = |rules: Value, succeeded: &str| {
            let spec = json!({"completions": 10, "successPolicy": {"rules": rules}});
            let job: Job = serde_json::from_value(json!({"spec": spec})).unwrap();
            met(&job, &Indexes::parse(succeeded, 10))
        };
        let at = |index: usize| Some(format!("Matched rules at index {index}"));
        assert_eq!(met(json!([{"succeededCount": 2}]), "3"), None);
        assert_eq!(met(json!([{"succeededCount": 2}]), "3,7"), at(0));
        assert_eq!(met(json!([{"succeededIndexes": "0,2-4"}]), "0,2-3"), None);
        assert_eq!(met(json!([{"succeededIndexes": "0,2-4"}]), "0-9"), at(0));
        let some = json!([{"succeededIndexes": "9"}, {"succeededIndexes": "0-5", "succeededCount": 2}]);
        assert_eq!(met(some.clone(), "0,7,8"), None);
        assert_eq!(met(some, "0,5,8"), at(1));
        assert_eq!(met(json!([{"succeededIndexes": "x"}]), "0-9"), None);
        assert_eq!(met(json!([{"succeededCount": 0}]), ""), None);
        assert_eq!(super::met(&Job::default(), &Indexes::default()), None);
    }
}
