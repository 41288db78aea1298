//! Formats rules as kube-apiserver does in error messages (`CompactRules` and `CompactString`).

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::quoted;
use coracle_registry::kinds::rbac::permission::{Permission, Target};
use serde_json::Value;

/// Formats rules, sorted and without duplicates. Rules that differ only in their verbs are merged.
pub(crate) fn compact_rules(rules: &[Value]) -> Vec<String> {
    let mut by_resource: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for Permission { verb, target } in rules.iter().flat_map(Permission::all_of) {
        match target {
            Target::Resource { group, resource, name } => {
                by_resource.entry((group, resource, name)).or_default().push(verb);
            }
            Target::Url(url) => {
                all.insert(format!("{{NonResourceURLs:{}, Verbs:{}}}", list(&[url]), list(&[verb])));
            }
        }
    }
    for ((group, resource, name), verbs) in by_resource {
        let name = name.map(|name| format!(", ResourceNames:{}", list(&[name]))).unwrap_or_default();
        let (group, resource, verbs) = (list(&[group]), list(&[resource]), list(&verbs));
        all.insert(format!("{{APIGroups:{group}, Resources:{resource}{name}, Verbs:{verbs}}}"));
    }
    all.into_iter().collect()
}

/// Formats a list of texts like Go's `%q`.
pub(crate) fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text.as_ref()).to_string()).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_formatted_as_in_kube_apiserver() {
        let rules = [
            json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]}),
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a\"b"]}),
            json!({"verbs": ["get", "post"], "nonResourceURLs": ["/x"]}),
            json!({"verbs": ["watch"], "apiGroups": [""], "resources": ["pods"]}),
        ];
        assert_eq!(
            compact_rules(&rules),
            [
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\" \"watch\"]}",
                "{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"a\\\"b\"], Verbs:[\"get\"]}",
                "{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}",
                "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}",
                "{NonResourceURLs:[\"/x\"], Verbs:[\"post\"]}",
            ]
        );
    }
}
