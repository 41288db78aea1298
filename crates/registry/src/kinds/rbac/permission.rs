//! Single permissions of policy rules, and whether other rules grant them, too.
//!
//! Rules are compared as written, not by existing resources: a wildcard is granted only by a wildcard.

use serde_json::{Value, json};

use crate::view;

/// Permission for one verb on one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The target of the verb.
    pub target: Target<'a>,
}

/// Target of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Objects of a resource.
    Resource {
        /// API group of the resource.
        group: &'a str,
        /// Name of the resource, or of a subresource such as `pods/log`.
        resource: &'a str,
        /// Name of the object; `None` for all objects.
        name: Option<&'a str>,
    },
    /// A non-resource URL.
    Url(&'a str),
}

impl<'a> Permission<'a> {
    /// Returns all permissions that a rule grants.
    pub fn all_of(rule: &'a Value) -> Vec<Self> {
        let verbs = || texts(rule, "verbs");
        let mut names: Vec<Option<&str>> = texts(rule, "resourceNames").map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        let mut all = Vec::new();
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in verbs() {
                    let target = |name: &Option<&'a str>| Target::Resource { group, resource, name: *name };
                    all.extend(names.iter().map(|name| Self { verb, target: target(name) }));
                }
            }
        }
        for url in texts(rule, "nonResourceURLs") {
            all.extend(verbs().map(|verb| Self { verb, target: Target::Url(url) }));
        }
        all
    }

    /// Returns true if a rule grants the permission.
    pub fn is_granted_by(&self, rule: &Value) -> bool {
        let has = |field: &str, wanted: &str| texts(rule, field).any(|text| text == wanted);
        let has_or_all = |field: &str, wanted: &str| has(field, wanted) || has(field, "*");
        let any_name = texts(rule, "resourceNames").next().is_none();
        let target_fits = match self.target {
            Target::Resource { group, resource, name } => {
                has_or_all("apiGroups", group)
                    && (has_or_all("resources", resource)
                        || has("resources", &any_with_subresource(resource)))
                    && (any_name || name.is_some_and(|name| has("resourceNames", name)))
            }
            Target::Url(url) => {
                any_name && texts(rule, "nonResourceURLs").any(|pattern| url_matches(pattern, url))
            }
        };
        target_fits && has_or_all("verbs", self.verb)
    }

    /// Returns the rule that grants this permission and no other.
    pub fn rule(&self) -> Value {
        match self.target {
            Target::Resource { group, resource, name: None } => {
                json!({"verbs": [self.verb], "apiGroups": [group], "resources": [resource]})
            }
            Target::Resource { group, resource, name: Some(name) } => json!({
                "verbs": [self.verb],
                "apiGroups": [group],
                "resources": [resource],
                "resourceNames": [name],
            }),
            Target::Url(url) => json!({"verbs": [self.verb], "nonResourceURLs": [url]}),
        }
    }
}

/// Returns the permissions of the rules `wanted` that no rule of `held` grants, each as a rule of its own.
pub fn missing(held: &[Value], wanted: &[Value]) -> Vec<Value> {
    let wanted = wanted.iter().flat_map(Permission::all_of);
    wanted
        .filter(|permission| !held.iter().any(|rule| permission.is_granted_by(rule)))
        .map(|permission| permission.rule())
        .collect()
}

fn texts<'a>(rule: &'a Value, field: &'a str) -> impl Iterator<Item = &'a str> {
    view::items(rule, &[field]).iter().filter_map(Value::as_str)
}

/// Returns the same subresource of any resource; for a resource without subresource, a text that no rule contains.
fn any_with_subresource(resource: &str) -> String {
    resource.split_once('/').map(|(_, part)| format!("*/{part}")).unwrap_or_default()
}

fn url_matches(pattern: &str, wanted: &str) -> bool {
    pattern == wanted || pattern.ends_with('*') && wanted.starts_with(pattern.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
    }

    fn url(verb: &str, path: &str) -> Value {
        json!({"verbs": [verb], "nonResourceURLs": [path]})
    }

    #[test]
    fn missing_permissions_are_returned_one_by_one() {
        let held = [rule(&["get"], &[""], &["pods"], &[])];
        let wanted = [rule(&["get", "list"], &["", "apps"], &["pods"], &[])];
        let missing_rules = missing(&held, &wanted);
        let verbs: Vec<_> =
            missing_rules.iter().map(|rule| (&rule["verbs"][0], &rule["apiGroups"][0])).collect();
        assert_eq!(
            verbs,
            [(&json!("list"), &json!("")), (&json!("get"), &json!("apps")), (&json!("list"), &json!("apps"))]
        );
        assert_eq!(missing_rules[0].get("resourceNames"), None);
    }

    #[test]
    fn rule_grants_only_matching_permissions() {
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        let one_pod = rule(&["get"], &[""], &["pods"], &["a"]);
        let all = rule(&["*"], &["*"], &["*"], &[]);
        let logs = rule(&["get"], &[""], &["pods/log"], &[]);
        let any_log = rule(&["get"], &[""], &["*/log"], &[]);
        for (held, wanted, granted) in [
            (&pods, &pods, true),
            (&pods, &one_pod, true),
            (&one_pod, &pods, false),
            (&all, &pods, true),
            (&pods, &all, false),
            (&all, &logs, true),
            (&pods, &logs, false),
            (&any_log, &logs, true),
            (&any_log, &pods, false),
            (&all, &url("get", "/a"), false),
            (&url("get", "/a/*"), &url("get", "/a/b"), true),
            (&url("get", "/a/*"), &url("get", "/a"), false),
            (&url("*", "*"), &url("get", "/a"), true),
            (&url("get", "/a"), &url("get", "/a/*"), false),
        ] {
            let missing_rules = missing(std::slice::from_ref(held), std::slice::from_ref(wanted));
            assert_eq!(missing_rules.is_empty(), granted, "{held} for {wanted}");
        }
    }
}
