//! One rule of a role, and how it matches requests, as in Kubernetes (`pkg/apis/rbac/v1/evaluation_helpers.go`).

use coracle_registry::view;
use serde_json::{Value, json};

use super::super::{Attributes, ResourceTarget, Target};

/// The wildcard for all verbs, groups, resources or paths.
pub(super) const ALL: &str = "*";

/// The verbs of most rules, each with its own bit, so that one comparison excludes most rules.
const COMMON_VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The bit of all other verbs, which must be compared as text.
const OTHER_VERB: u16 = 1 << 8;

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PolicyRule {
    pub(super) verbs: Vec<String>,
    pub(super) api_groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) resource_names: Vec<String>,
    pub(super) non_resource_urls: Vec<String>,
    /// Bits of the verbs that can match.
    verb_bits: u16,
}

/// A request, prepared for comparison with many rules.
#[derive(Clone, Copy)]
pub(super) struct PreparedRequest<'a> {
    attributes: Attributes<'a>,
    verb_bit: u16,
}

impl<'a> PreparedRequest<'a> {
    pub(super) fn new(attributes: Attributes<'a>) -> Self {
        Self { verb_bit: verb_bit(attributes.verb), attributes }
    }
}

impl PolicyRule {
    /// Parses a rule of a role.
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |field| {
            let items = view::items(rule, &[field]).iter();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let rule = Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
            verb_bits: 0,
        };
        Self { verb_bits: verb_bits(&rule.verbs), ..rule }
    }

    /// Formats the rule as in a role.
    pub(super) fn to_value(&self) -> Value {
        json!({
            "verbs": self.verbs,
            "apiGroups": self.api_groups,
            "resources": self.resources,
            "resourceNames": self.resource_names,
            "nonResourceURLs": self.non_resource_urls,
        })
    }

    /// Parses all rules of a role, in their order.
    pub(super) fn read_all(role: &Value) -> Vec<Self> {
        view::items(role, &["rules"]).iter().map(Self::read).collect()
    }

    /// Returns true if the rule allows the request.
    pub(super) fn allows(&self, request: &PreparedRequest<'_>) -> bool {
        let is_named = match &request.attributes.target {
            Target::Resource(target) => {
                self.resource_names.is_empty() || self.resource_names.iter().any(|own| own == target.name)
            }
            Target::Path(_) => true,
        };
        is_named && self.concerns(request)
    }

    /// Returns true if the rule would allow the request for some object name.
    pub(super) fn concerns(&self, request: &PreparedRequest<'_>) -> bool {
        if self.verb_bits & request.verb_bit == 0 {
            return false;
        }
        let verb = request.attributes.verb;
        if request.verb_bit == OTHER_VERB && !self.verbs.iter().any(|own| own == ALL || own == verb) {
            return false;
        }
        match &request.attributes.target {
            Target::Resource(target) => self.is_about(target),
            Target::Path(path) => self.non_resource_urls.iter().any(|own| path_matches(own, path)),
        }
    }

    fn is_about(&self, target: &ResourceTarget<'_>) -> bool {
        self.api_groups.iter().any(|own| own == ALL || own == target.group)
            && self.resources.iter().any(|own| resource_matches(own, target.resource, target.subresource))
    }
}

fn verb_bit(verb: &str) -> u16 {
    COMMON_VERBS.iter().position(|common| *common == verb).map_or(OTHER_VERB, |place| 1 << place)
}

fn verb_bits(verbs: &[String]) -> u16 {
    verbs.iter().map(|verb| if verb == ALL { u16::MAX } else { verb_bit(verb) }).fold(0, |all, bit| all | bit)
}

/// Returns true if a resource pattern matches: `*`, `pods`, `pods/log` or `*/scale`.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    let of = own.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    of.is_some_and(|of| of == resource || of == ALL)
}

/// Returns true if a path pattern matches: `/a`, or `/a*` for a prefix.
pub(super) fn path_matches(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allows(rule: Value, verb: &str, target: Target<'_>) -> bool {
        PolicyRule::read(&rule).allows(&PreparedRequest::new(Attributes { verb, target }))
    }

    fn resource<'a>(group: &'a str, resource: &'a str, part: &'a str, name: &'a str) -> Target<'a> {
        let (subresource, namespace) = (part, "ns");
        Target::Resource(ResourceTarget {
            group,
            resource,
            subresource,
            namespace,
            name,
            ..ResourceTarget::default()
        })
    }

    #[test]
    fn resources_match_as_in_kubernetes() {
        for (own, wanted, part, expected) in [
            ("*", "pods", "", true),
            ("*", "pods", "log", true),
            ("pods", "pods", "", true),
            ("pods", "pods", "log", false),
            ("pods/log", "pods", "log", true),
            ("pods/log", "pods", "", false),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "status", false),
            ("*/scale", "scale", "", false),
            ("pods/*", "pods", "log", false),
            ("/log", "pods", "log", false),
            ("podslog", "pods", "log", false),
        ] {
            let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [own]});
            assert_eq!(
                allows(rule, "get", resource("", wanted, part, "x")),
                expected,
                "{own} {wanted}/{part}"
            );
        }
    }

    #[test]
    fn verbs_groups_and_names_have_to_match() {
        let rule = |verb: &str, group: &str, names: Value| json!({"verbs": [verb], "apiGroups": [group], "resources": ["pods"], "resourceNames": names});
        let pod = resource("", "pods", "", "x");
        assert!(allows(rule("*", "*", json!([])), "get", pod));
        assert!(allows(rule("*", "*", json!([])), "conquer", pod));
        assert!(allows(rule("conquer", "", json!(["x"])), "conquer", pod));
        assert!(!allows(rule("conquer", "", json!(["x"])), "resist", pod));
        assert!(!allows(rule("get", "apps", json!([])), "get", pod));
        assert!(!allows(rule("get", "", json!(["y"])), "get", pod));
        assert!(!allows(rule("get", "", json!(["x"])), "get", resource("", "pods", "", "")));
        assert!(!allows(rule("list", "", json!([])), "get", pod));
        assert!(!allows(rule("*", "*", json!([])), "get", Target::Path("/pods")));
        assert!(!allows(json!({}), "get", pod));
    }

    #[test]
    fn paths_match_as_in_kubernetes() {
        for (own, path, expected) in [
            ("*", "/a/b", true),
            ("/a", "/a", true),
            ("/a", "/a/", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", true),
            ("/a/*", "/a", false),
            ("/a*", "/ab", true),
            ("/a**", "/ab", true),
            ("/*/b", "/a/b", false),
        ] {
            let rule = json!({"verbs": ["get"], "nonResourceURLs": [own]});
            assert_eq!(allows(rule, "get", Target::Path(path)), expected, "{own} {path}");
        }
    }
}
