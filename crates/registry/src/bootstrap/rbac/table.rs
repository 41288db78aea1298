//! Parser of the table of roles; `roles.txt` describes its format.
//!
//! A malformed line becomes an invalid rule, so that the creation of the roles fails.

use serde_json::{Value, json};

use crate::bootstrap::objects::SYSTEM;

/// A role and its bindings.
pub(super) struct Role {
    /// Empty for a ClusterRole.
    pub(super) namespace: &'static str,
    pub(super) name: String,
    /// Suffix of the label that selects the roles that it aggregates.
    pub(super) collects: Option<&'static str>,
    /// Suffix of the label by which another role aggregates it.
    pub(super) part_of: Option<&'static str>,
    pub(super) rules: Vec<Rule>,
    pub(super) bindings: Vec<Binding>,
}

/// A rule in the text form: as trees, all rules together would take half a megabyte.
#[derive(Debug, PartialEq)]
pub(super) struct Rule(Vec<&'static str>);

impl Rule {
    pub(super) fn object(&self) -> Value {
        rule(&self.0)
    }
}

/// A binding of the role.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) subjects: Vec<Subject>,
}

/// A subject of a binding, in the text form.
#[derive(Debug, PartialEq)]
pub(super) struct Subject(String);

impl Subject {
    pub(super) fn object(&self) -> Value {
        subject(&self.0)
    }
}

/// Parses the roles of a table.
pub(super) fn read(text: &'static str) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    for (begins_role, words) in statements(text) {
        match roles.last_mut() {
            Some(role) if !begins_role => add(role, words),
            _ => roles.push(begun(&words)),
        }
    }
    roles
}

/// The words of each statement, and whether it begins a role.
fn statements(text: &'static str) -> Vec<(bool, Vec<&'static str>)> {
    let mut statements: Vec<(bool, Vec<&str>)> = Vec::new();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let words = line.split_whitespace();
        match statements.last_mut() {
            Some((_, begun)) if line.starts_with("    ") => begun.extend(words),
            _ => statements.push((!line.starts_with(' '), words.collect())),
        }
    }
    statements
}

/// A role from its first line.
fn begun(words: &[&'static str]) -> Role {
    let after = |word: &str| words.windows(2).find(|pair| pair[0] == word).map(|pair| pair[1]);
    if let Some(controller) = after("controller") {
        let name = format!("system:controller:{controller}");
        let account = Subject(format!("account:{SYSTEM}/{controller}"));
        let binding = Binding { name: name.clone(), subjects: vec![account] };
        return Role {
            namespace: "",
            name,
            collects: None,
            part_of: None,
            rules: Vec::new(),
            bindings: vec![binding],
        };
    }
    let named = after("role").unwrap_or_default();
    let (namespace, name) = named.split_once('/').unwrap_or(("", named));
    Role {
        namespace,
        name: name.to_owned(),
        collects: after("collects"),
        part_of: after("part-of"),
        rules: Vec::new(),
        bindings: Vec::new(),
    }
}

fn add(role: &mut Role, words: Vec<&'static str>) {
    let subjects = |words: &[&str]| words.iter().map(|word| Subject((*word).to_owned())).collect();
    match words.as_slice() {
        ["bound", whom @ ..] => {
            role.bindings.push(Binding { name: role.name.clone(), subjects: subjects(whom) });
        }
        ["bound-as", name, whom @ ..] => {
            role.bindings.push(Binding { name: (*name).to_owned(), subjects: subjects(whom) });
        }
        _ => role.rules.push(Rule(words)),
    }
}

fn subject(word: &str) -> Value {
    match word.split_once(':') {
        Some(("user", name)) => json!({"kind": "User", "name": name}),
        Some(("group", name)) => json!({"kind": "Group", "name": name}),
        Some(("account", account_name)) => {
            let (namespace, name) = account_name.split_once('/').unwrap_or(("", account_name));
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        _ => Value::Null,
    }
}

fn rule(words: &[&str]) -> Value {
    match words {
        ["events"] => rule(&["create,patch,update", "core,events.k8s.io", "events"]),
        [allowed, "urls", paths @ ..] => json!({"verbs": verbs(allowed), "nonResourceURLs": paths}),
        [allowed, groups, what @ ..] => {
            let groups = groups.split(',').map(|group| if group == "core" { "" } else { group });
            let groups: Vec<&str> = groups.collect();
            let mut parts = what.split(|word| *word == "named");
            let mut rule = json!({"verbs": verbs(allowed), "apiGroups": groups, "resources": parts.next()});
            if let Some(names) = parts.next() {
                rule["resourceNames"] = json!(names);
            }
            rule
        }
        _ => json!({}),
    }
}

/// The verbs of a list, sorted as in Kubernetes.
fn verbs(list: &str) -> Vec<&str> {
    let mut verbs = Vec::new();
    for verb in list.split(',') {
        match verb {
            "read" => verbs.extend(["get", "list", "watch"]),
            "write" => verbs.extend(["create", "delete", "deletecollection", "patch", "update"]),
            verb => verbs.push(verb),
        }
    }
    verbs.sort_unstable();
    verbs
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A comment.\n\nrole a:b collects x part-of y\n  bound group:g:h user:u\n  \
        read,create core,apps pods\n      nodes named n\n  get urls /a /b/*\n\nrole n/r\n  \
        bound-as other account:s/t\n  events\n\ncontroller c\n";

    #[test]
    fn table_is_parsed_into_roles() {
        let roles = read(TABLE);
        assert_eq!(roles.len(), 3);
        let [cluster, namespaced, controller] = roles.as_slice() else { panic!() };
        assert_eq!((cluster.namespace, cluster.name.as_str()), ("", "a:b"));
        assert_eq!((cluster.collects, cluster.part_of), (Some("x"), Some("y")));
        assert_eq!(
            cluster.rules.iter().map(Rule::object).collect::<Vec<_>>(),
            [
                json!({
                    "verbs": ["create", "get", "list", "watch"],
                    "apiGroups": ["", "apps"],
                    "resources": ["pods", "nodes"],
                    "resourceNames": ["n"],
                }),
                json!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]}),
            ]
        );
        assert_eq!(cluster.bindings[0].name, "a:b");
        assert_eq!(cluster.bindings[0].subjects[0].object(), json!({"kind": "Group", "name": "g:h"}));
        assert_eq!((namespaced.namespace, namespaced.name.as_str()), ("n", "r"));
        assert_eq!(namespaced.bindings[0].name, "other");
        let account =
            |namespace, name| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
        assert_eq!(namespaced.bindings[0].subjects[0].object(), account("s", "t"));
        assert_eq!(namespaced.rules[0].object()["apiGroups"], json!(["", "events.k8s.io"]));
        assert_eq!(controller.name, "system:controller:c");
        assert_eq!(controller.bindings[0].subjects[0].object(), account("kube-system", "c"));
    }

    #[test]
    fn malformed_line_becomes_a_rule_that_allows_nothing() {
        assert_eq!(rule(&["reed"]), json!({}));
        assert_eq!(subject("robot:r"), Value::Null);
    }
}
