//! Merges the entries of one kubeconfig into another as values, so that fields unknown to us are preserved.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Reason why a merge failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MergeError {
    /// The target file is not structured like a kubeconfig.
    #[error("{0} is not a list of named entries")]
    Malformed(&'static str),
    /// An entry of this name belongs to another cluster.
    #[error("the {kind} {name:?} belongs to another cluster")]
    Foreign { kind: &'static str, name: String },
}

/// One entry that the merge added or updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) is_new: bool,
    kind: &'static str,
    name: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_new { "added" } else { "updated" };
        write!(f, "{verb} {} {}", self.kind, self.name)
    }
}

#[derive(Debug)]
pub(super) struct Merged {
    pub(super) config: Value,
    pub(super) changes: Vec<Change>,
    pub(super) current_context: String,
}

/// A list of a kubeconfig and the key of its entries.
struct Section {
    list: &'static str,
    kind: &'static str,
    /// Fields that contradict ours; removed when an entry is updated.
    conflicting: &'static [&'static str],
}

const CLUSTERS: Section = Section {
    list: "clusters",
    kind: "cluster",
    conflicting: &["certificate-authority", "insecure-skip-tls-verify"],
};
const USERS: Section = Section {
    list: "users",
    kind: "user",
    conflicting: &["client-certificate", "client-key", "token", "exec"],
};
const CONTEXTS: Section = Section { list: "contexts", kind: "context", conflicting: &[] };

/// Merges `ours`, a kubeconfig with one cluster, one user and one context, into `config`. Entries of the same names are
/// updated if they are this cluster's. The current context changes if there is none, or if `switch` is set.
pub(super) fn merge(config: Value, ours: &Value, switch: bool) -> Result<Merged, MergeError> {
    let mut config = if config.is_null() { json!({"apiVersion": "v1", "kind": "Config"}) } else { config };
    if !config.is_object() {
        return Err(MergeError::Malformed("the file"));
    }
    check_ownership(&config, ours)?;
    let mut changes = Vec::new();
    for section in [&CLUSTERS, &USERS, &CONTEXTS] {
        for entry in section.entries(ours)? {
            changes.extend(section.put(&mut config, entry)?);
        }
    }
    let current = text(&config, "current-context").to_owned();
    if current.is_empty() || switch {
        config["current-context"] = ours["current-context"].clone();
    }
    let current_context = text(&config, "current-context").to_owned();
    Ok(Merged { config, changes, current_context })
}

impl Section {
    fn entries<'a>(&self, config: &'a Value) -> Result<&'a [Value], MergeError> {
        match &config[self.list] {
            Value::Null => Ok(&[]),
            Value::Array(entries) if entries.iter().all(Value::is_object) => Ok(entries),
            _ => Err(MergeError::Malformed(self.list)),
        }
    }

    fn find<'a>(&self, config: &'a Value, name: &str) -> Result<Option<&'a Value>, MergeError> {
        Ok(self.entries(config)?.iter().find(|entry| text(entry, "name") == name))
    }

    /// Adds an entry, or updates the fields of an existing one. Fields that ours lacks are preserved, such as the
    /// namespace of a context.
    fn put(&self, config: &mut Value, entry: &Value) -> Result<Option<Change>, MergeError> {
        let name = text(entry, "name");
        let change = |is_new| Some(Change { is_new, kind: self.kind, name: name.to_owned() });
        let list = &mut config[self.list];
        if list.is_null() {
            *list = json!([]);
        }
        let Value::Array(entries) = list else { return Err(MergeError::Malformed(self.list)) };
        let Some(existing) = entries.iter_mut().find(|entry| text(entry, "name") == name) else {
            entries.push(entry.clone());
            return Ok(change(true));
        };
        let before = existing.clone();
        if !existing[self.kind].is_object() {
            existing[self.kind] = Value::Object(Map::new());
        }
        let (Value::Object(fields), Value::Object(wanted)) = (&mut existing[self.kind], &entry[self.kind])
        else {
            return Err(MergeError::Malformed(self.list));
        };
        fields.retain(|key, _| !self.conflicting.contains(&key.as_str()));
        fields.extend(wanted.clone());
        Ok(if *existing == before { None } else { change(false) })
    }
}

/// Rejects the merge if an entry to update belongs to another cluster.
fn check_ownership(config: &Value, ours: &Value) -> Result<(), MergeError> {
    for cluster in CLUSTERS.entries(ours)? {
        let name = text(cluster, "name");
        let existing = CLUSTERS.find(config, name)?;
        if existing.is_some_and(|existing| !shares_ca(&existing["cluster"], &cluster["cluster"])) {
            return Err(foreign(&CLUSTERS, name));
        }
        for context in CONTEXTS.entries(ours)? {
            let context_name = text(context, "name");
            let existing_context = CONTEXTS.find(config, context_name)?;
            if existing_context.is_some_and(|existing| text(&existing["context"], "cluster") != name) {
                return Err(foreign(&CONTEXTS, context_name));
            }
            let user = text(&context["context"], "user");
            if USERS.find(config, user)?.is_some()
                && (existing.is_none() || is_used_elsewhere(config, user, name)?)
            {
                let same = USERS.find(config, user)? == USERS.find(ours, user)?;
                if !same {
                    return Err(foreign(&USERS, user));
                }
            }
        }
    }
    Ok(())
}

/// Returns true if a context of another cluster refers to the user.
fn is_used_elsewhere(config: &Value, user: &str, cluster: &str) -> Result<bool, MergeError> {
    let mut contexts = CONTEXTS.entries(config)?.iter().map(|entry| &entry["context"]);
    Ok(contexts.any(|context| text(context, "user") == user && text(context, "cluster") != cluster))
}

fn foreign(section: &Section, name: &str) -> MergeError {
    MergeError::Foreign { kind: section.kind, name: name.to_owned() }
}

/// Returns true if two clusters share a trusted CA. After a rotation the bundles differ and overlap.
fn shares_ca(a: &Value, b: &Value) -> bool {
    let (a, b) = (authorities(a), authorities(b));
    a.iter().any(|authority| b.contains(authority))
}

/// Certificates of a CA bundle, each as the base64 text of its PEM block.
fn authorities(cluster: &Value) -> Vec<String> {
    let bundle = STANDARD.decode(text(cluster, "certificate-authority-data")).unwrap_or_default();
    let bundle = String::from_utf8_lossy(&bundle);
    let blocks = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split("-----END").next());
    bodies.map(|body| body.split_whitespace().collect()).collect()
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(bodies: &[&str]) -> String {
        let block = |body: &&str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        STANDARD.encode(bodies.iter().map(block).collect::<String>())
    }

    fn ours(name: &str, authorities: &[&str], key: &str) -> Value {
        let user = format!("kubernetes-admin@{name}");
        json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": bundle(authorities)}}],
            "users": [{"name": user, "user": {"client-certificate-data": "Yw==", "client-key-data": key}}],
            "contexts": [{"name": user, "context": {"cluster": name, "user": user}}],
            "current-context": user,
        })
    }

    fn changes(merged: &Merged) -> Vec<String> {
        merged.changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn merge_into_nothing_adds_all_and_sets_the_current_context() {
        let merged = merge(Value::Null, &ours("dev", &["A"], "k"), false).unwrap();
        let user = "kubernetes-admin@dev";
        let expected =
            ["added cluster dev".to_owned(), format!("added user {user}"), format!("added context {user}")];
        assert_eq!(changes(&merged), expected);
        assert_eq!((&*merged.current_context, merged.config), (user, ours("dev", &["A"], "k")));
    }

    #[test]
    fn merge_keeps_other_entries_unknown_fields_and_the_current_context() {
        let mut config = ours("other", &["B"], "x");
        config["preferences"] = json!({"colors": true});
        config["clusters"][0]["cluster"]["extensions"] = json!([{"name": "e", "extension": 1}]);
        let before = config.clone();
        let merged = merge(config, &ours("dev", &["A"], "k"), false).unwrap();
        assert_eq!(merged.current_context, "kubernetes-admin@other");
        assert_eq!(merged.config["preferences"], before["preferences"]);
        assert_eq!(merged.config["clusters"][0], before["clusters"][0]);
        assert_eq!(merged.config["clusters"][1]["name"], "dev");
        let switched = merge(before, &ours("dev", &["A"], "k"), true).unwrap();
        assert_eq!(switched.current_context, "kubernetes-admin@dev");
    }

    #[test]
    fn merge_again_changes_nothing_and_after_a_rotation_updates() {
        let mut config = merge(Value::Null, &ours("dev", &["A"], "k"), false).unwrap().config;
        assert_eq!(merge(config.clone(), &ours("dev", &["A"], "k"), false).unwrap().changes, []);
        config["contexts"][0]["context"]["namespace"] = "mine".into();
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = true.into();
        let merged = merge(config, &ours("dev", &["B", "A"], "l"), false).unwrap();
        assert_eq!(changes(&merged), ["updated cluster dev", "updated user kubernetes-admin@dev"]);
        assert_eq!(merged.config["contexts"][0]["context"]["namespace"], "mine");
        assert_eq!(merged.config["clusters"][0]["cluster"].get("insecure-skip-tls-verify"), None);
        assert_eq!(merged.config["users"][0]["user"]["client-key-data"], "l");
    }

    #[test]
    fn merge_over_an_entry_of_another_cluster_is_rejected() {
        let other_ca = merge(ours("dev", &["B"], "k"), &ours("dev", &["A"], "k"), false).unwrap_err();
        assert_eq!(other_ca.to_string(), "the cluster \"dev\" belongs to another cluster");
        let mut context = ours("dev", &["A"], "k");
        context["contexts"][0]["context"]["cluster"] = "x".into();
        let error = merge(context, &ours("dev", &["A"], "k"), false).unwrap_err();
        assert!(matches!(error, MergeError::Foreign { kind: "context", .. }), "{error}");
        let mut user = ours("dev", &["A"], "x");
        user["clusters"] = json!([]);
        let error = merge(user, &ours("dev", &["A"], "k"), false).unwrap_err();
        assert!(matches!(error, MergeError::Foreign { kind: "user", .. }), "{error}");
    }

    #[test]
    fn merge_into_another_structure_is_rejected() {
        for config in [json!([]), json!("a"), json!({"clusters": {}}), json!({"users": ["a"]})] {
            assert!(merge(config.clone(), &ours("dev", &["A"], "k"), false).is_err(), "{config}");
        }
    }
}
