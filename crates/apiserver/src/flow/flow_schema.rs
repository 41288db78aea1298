//! A FlowSchema, parsed: which requests it matches and how it distinguishes their flows.
//!
//! Matching is that of kube-apiserver (`pkg/util/flowcontrol/rule.go` of k8s.io/apiserver). It allocates nothing.

use coracle_registry::{Identity, view};
use serde_json::Value;

use crate::authorization::{Attributes, ResourceTarget, Target};

const ALL: &str = "*";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

#[derive(Debug)]
pub(super) struct FlowSchema {
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    /// Schemas with a lower one are tried first.
    pub(super) precedence: i64,
    /// The name of the PriorityLevelConfiguration.
    pub(super) level: Box<str>,
    distinguisher: Distinguisher,
    rules: Box<[Rule]>,
}

/// The attribute of a request that names its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    /// All requests of the schema are one flow.
    None,
    User,
    Namespace,
}

#[derive(Debug)]
struct Rule {
    subjects: Box<[Subject]>,
    resources: Box<[ResourceRule]>,
    paths: Box<[PathRule]>,
}

#[derive(Debug)]
enum Subject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str> },
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    namespaces: Names,
    cluster_scope: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Names,
    paths: Box<[Box<str>]>,
}

/// Names of which one must match, or a single `*` that matches all.
#[derive(Debug)]
enum Names {
    All,
    These(Box<[Box<str>]>),
}

impl FlowSchema {
    /// Parses a stored object, which validation has accepted.
    pub(super) fn parse(object: &Value) -> Self {
        Self {
            name: view::name(object).into(),
            uid: view::text(object, &["metadata", "uid"]).into(),
            precedence: view::integer(object, &["spec", "matchingPrecedence"]).unwrap_or(0),
            level: view::text(object, &["spec", "priorityLevelConfiguration", "name"]).into(),
            distinguisher: match view::text(object, &["spec", "distinguisherMethod", "type"]) {
                "ByUser" => Distinguisher::User,
                "ByNamespace" => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: view::items(object, &["spec", "rules"]).iter().map(Rule::parse).collect(),
        }
    }

    pub(super) fn matches(&self, user: &Identity, attributes: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(user, attributes))
    }

    /// The flow of a matching request among those of the schema.
    pub(super) fn distinguish<'a>(&self, user: &'a Identity, attributes: &Attributes<'a>) -> &'a str {
        match (self.distinguisher, &attributes.target) {
            (Distinguisher::User, _) => &user.name,
            (Distinguisher::Namespace, Target::Resource(target)) => target.namespace,
            (Distinguisher::Namespace, Target::Path(_)) | (Distinguisher::None, _) => "",
        }
    }
}

impl Rule {
    fn parse(rule: &Value) -> Self {
        Self {
            subjects: view::items(rule, &["subjects"]).iter().filter_map(Subject::parse).collect(),
            resources: view::items(rule, &["resourceRules"]).iter().map(ResourceRule::parse).collect(),
            paths: view::items(rule, &["nonResourceRules"]).iter().map(PathRule::parse).collect(),
        }
    }

    fn matches(&self, user: &Identity, attributes: &Attributes<'_>) -> bool {
        let verb = attributes.verb;
        self.subjects.iter().any(|subject| subject.matches(user))
            && match &attributes.target {
                Target::Resource(target) => self.resources.iter().any(|rule| rule.matches(verb, target)),
                Target::Path(path) => self.paths.iter().any(|rule| rule.matches(verb, path)),
            }
    }
}

impl Subject {
    fn parse(subject: &Value) -> Option<Self> {
        let text = |path: &[&str]| view::text(subject, path).into();
        match view::text(subject, &["kind"]) {
            "User" => Some(Self::User(text(&["user", "name"]))),
            "Group" => Some(Self::Group(text(&["group", "name"]))),
            "ServiceAccount" => Some(Self::ServiceAccount {
                namespace: text(&["serviceAccount", "namespace"]),
                name: text(&["serviceAccount", "name"]),
            }),
            _ => None,
        }
    }

    fn matches(&self, user: &Identity) -> bool {
        match self {
            Self::User(name) => **name == *ALL || **name == *user.name,
            Self::Group(name) => **name == *ALL || user.groups.iter().any(|group| **group == **name),
            Self::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX);
                let account = account.and_then(|account| account.split_once(':'));
                account.is_some_and(|(in_namespace, named)| {
                    in_namespace == &**namespace && (**name == *ALL || named == &**name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn parse(rule: &Value) -> Self {
        Self {
            verbs: Names::parse(rule, "verbs"),
            groups: Names::parse(rule, "apiGroups"),
            resources: Names::parse(rule, "resources"),
            namespaces: Names::parse(rule, "namespaces"),
            cluster_scope: view::is_true(rule, &["clusterScope"]),
        }
    }

    fn matches(&self, verb: &str, target: &ResourceTarget<'_>) -> bool {
        let is_resource = |pattern: &str| {
            let rest = pattern.strip_prefix(target.resource);
            match target.subresource {
                "" => rest == Some(""),
                part => rest.and_then(|rest| rest.strip_prefix('/')) == Some(part),
            }
        };
        self.verbs.contain(verb)
            && self.resources.any(is_resource)
            && self.groups.contain(target.group)
            && match target.namespace {
                "" => self.cluster_scope,
                namespace => self.namespaces.contain(namespace),
            }
    }
}

impl PathRule {
    fn parse(rule: &Value) -> Self {
        Self { verbs: Names::parse(rule, "verbs"), paths: names(rule, "nonResourceURLs").collect() }
    }

    fn matches(&self, verb: &str, path: &str) -> bool {
        self.verbs.contain(verb) && self.paths.iter().any(|pattern| matches_path(pattern, path))
    }
}

/// Returns true if a pattern matches a path: itself, or what lies beneath it. So `/healthz` matches `/healthz/etcd`,
/// and `/healthz/*` does not match `/healthz`.
fn matches_path(pattern: &str, path: &str) -> bool {
    if pattern == ALL || pattern == path {
        return true;
    }
    let prefix = pattern.strip_suffix('*').unwrap_or(pattern);
    let beneath = path.strip_prefix(prefix);
    beneath.is_some_and(|rest| prefix.ends_with('/') || rest.starts_with('/'))
}

impl Names {
    fn parse(rule: &Value, field: &str) -> Self {
        let all: Box<[Box<str>]> = names(rule, field).collect();
        match &*all {
            [only] if **only == *ALL => Self::All,
            _ => Self::These(all),
        }
    }

    fn contain(&self, wanted: &str) -> bool {
        self.any(|name| name == wanted)
    }

    fn any(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(|name| is_wanted(name)),
        }
    }
}

fn names<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = Box<str>> + use<'a> {
    view::items(rule, &[field]).iter().filter_map(Value::as_str).map(Box::from)
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use serde_json::json;

    use super::*;
    use crate::request_info::RequestInfo;

    fn user(name: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Identity { name: name.to_owned(), groups, ..Identity::default() }
    }

    /// Checks that a schema with one rule matches a request, or does not.
    fn check(rule: &Value, user: &Identity, method: &str, uri: &str, expected: bool) {
        let schema = FlowSchema::parse(&json!({"metadata": {"name": "s"}, "spec": {"rules": [rule]}}));
        let info = RequestInfo::new(&method.parse().unwrap(), &uri.parse::<Uri>().unwrap());
        assert_eq!(schema.matches(user, &info.attributes()), expected, "{rule} {user:?} {method} {uri}");
    }

    #[test]
    fn subjects_match_users_groups_and_service_accounts() {
        let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
        let named = |name: &str| json!({"kind": "User", "user": {"name": name}});
        let grouped = |name: &str| json!({"kind": "Group", "group": {"name": name}});
        for (subject, name, groups, expected) in [
            (named("a"), "a", &[][..], true),
            (named("a"), "b", &[], false),
            (named("*"), "b", &[], true),
            (grouped("g"), "a", &["f", "g"], true),
            (grouped("g"), "g", &["f"], false),
            (grouped("*"), "a", &[], true),
            (account("n", "s"), "system:serviceaccount:n:s", &[], true),
            (account("n", "s"), "system:serviceaccount:n:t", &[], false),
            (account("n", "*"), "system:serviceaccount:n:t", &[], true),
            (account("n", "*"), "system:serviceaccount:nn:t", &[], false),
            (account("n", "*"), "n:t", &[], false),
            (json!({"kind": "Robot"}), "a", &[], false),
        ] {
            let rule = json!({"subjects": [subject], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
            check(&rule, &user(name, groups), "GET", "/version", expected);
        }
    }

    #[test]
    fn resource_rules_match_verb_group_resource_and_namespace() {
        let rule =
            |verbs: &[&str], groups: &[&str], resources: &[&str], namespaces: &[&str], cluster: bool| {
                let rule = json!({
                    "verbs": verbs, "apiGroups": groups, "resources": resources, "namespaces": namespaces,
                    "clusterScope": cluster,
                });
                json!({"subjects": [{"kind": "Group", "group": {"name": "*"}}], "resourceRules": [rule]})
            };
        let all = rule(&["*"], &["*"], &["*"], &["*"], true);
        let pods = rule(&["get", "list"], &[""], &["pods", "pods/log"], &["a", "b"], false);
        let cases = [
            (&all, "GET", "/apis/apps/v1/deployments", true),
            (&all, "GET", "/version", false),
            (&pods, "GET", "/api/v1/namespaces/a/pods/p", true),
            (&pods, "GET", "/api/v1/namespaces/a/pods/p/log", true),
            (&pods, "GET", "/api/v1/namespaces/a/pods/p/status", false),
            (&pods, "GET", "/api/v1/namespaces/a/podsets/p", false),
            (&pods, "GET", "/api/v1/namespaces/c/pods/p", false),
            (&pods, "POST", "/api/v1/namespaces/a/pods", false),
            (&pods, "GET", "/apis/x/v1/namespaces/a/pods", false),
            (&pods, "GET", "/api/v1/pods", false),
            (&rule(&["*"], &["*"], &["*"], &["*"], false), "GET", "/api/v1/pods", false),
            (&rule(&["*"], &[""], &["nodes"], &[], true), "PATCH", "/api/v1/nodes/n", true),
            (&rule(&["*"], &[""], &["nodes"], &[], true), "PATCH", "/api/v1/nodes/n/status", false),
        ];
        for (rule, method, uri, expected) in cases {
            check(rule, &user("a", &[]), method, uri, expected);
        }
    }

    #[test]
    fn path_rules_match_the_path_and_what_is_beneath() {
        let rule = json!({
            "subjects": [{"kind": "User", "user": {"name": "*"}}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}],
        });
        for (method, uri, expected) in [
            ("GET", "/healthz", true),
            ("GET", "/healthz/etcd", true),
            ("GET", "/healthzz", false),
            ("POST", "/healthz", false),
            ("GET", "/logs/a", true),
            ("GET", "/logs", false),
            ("GET", "/api/v1/pods", false),
        ] {
            check(&rule, &user("a", &[]), method, uri, expected);
        }
    }

    #[test]
    fn flows_are_distinguished_by_user_or_namespace() {
        let info = RequestInfo::new(&http::Method::GET, &"/api/v1/namespaces/n/pods".parse().unwrap());
        let path = RequestInfo::new(&http::Method::GET, &"/version".parse().unwrap());
        for (method, expected, of_path) in [
            (json!({"type": "ByUser"}), "a", "a"),
            (json!({"type": "ByNamespace"}), "n", ""),
            (Value::Null, "", ""),
        ] {
            let schema = FlowSchema::parse(&json!({"spec": {"distinguisherMethod": method}}));
            let somebody = user("a", &[]);
            assert_eq!(schema.distinguish(&somebody, &info.attributes()), expected);
            assert_eq!(schema.distinguish(&somebody, &path.attributes()), of_path);
        }
    }
}
