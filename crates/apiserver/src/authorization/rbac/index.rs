//! Index of the roles and bindings of a cluster: the bindings of a user and its groups are looked up, and only their
//! roles are evaluated.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use coracle_meta::field::quoted;
use coracle_registry::lifecycle::Place;
use coracle_registry::{Cluster, Identity, Result};
use serde_json::Value;

use super::super::union::aggregate;
use super::super::{Attributes, Decision, NonResourceRule, ResourceRule, Rules, Target};
use super::GROUP;
use super::binding::{Binding, RoleRef};
use super::bindings::Bindings;
use super::relevance_cache::{RelevanceCache, RelevantBindings};
use super::rule::{PolicyRule, PreparedRequest};
use crate::cluster_cache::{ObjectIndex, Source};

/// Rules of roles, by name.
type Roles = HashMap<Box<str>, Arc<[PolicyRule]>>;

/// All roles and bindings of a cluster.
#[derive(Default)]
pub(crate) struct Index {
    cluster_roles: Roles,
    /// By namespace.
    roles: HashMap<Box<str>, Roles>,
    cluster_bindings: Bindings,
    /// By namespace.
    bindings: HashMap<Box<str>, Bindings>,
    relevance_cache: RelevanceCache,
}

/// Decisions about users with at most this many bindings are not cached.
const MAX_UNCACHED_BINDINGS: usize = 16;

impl ObjectIndex for Index {
    const SOURCES: &'static [Source] = &[Source::Group(GROUP)];

    fn note(&mut self, place: Place<'_>, object: Option<&Value>) {
        Self::note(self, place, object);
    }
}

impl Index {
    /// Reads the stored objects without a cache. Frequent requests use the cache of [`Rbac`](super::Rbac).
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self> {
        let mut index = Self::default();
        cluster.follow_group(GROUP, |place, entry| index.note_entry(place, Some(entry))).await?;
        Ok(index)
    }

    /// Records an object; None if it was deleted.
    pub(super) fn note(&mut self, place: Place<'_>, object: Option<&Value>) {
        let Place { plural, namespace, name } = place;
        self.relevance_cache.clear();
        match plural {
            "clusterroles" => put(&mut self.cluster_roles, name, object.map(rules_of)),
            "roles" => {
                let roles = self.roles.entry(namespace.into()).or_default();
                put(roles, name, object.map(rules_of));
                if roles.is_empty() {
                    self.roles.remove(namespace);
                }
            }
            "clusterrolebindings" => self.cluster_bindings.note(name, "", object),
            "rolebindings" => {
                let bindings = self.bindings.entry(namespace.into()).or_default();
                bindings.note(name, namespace, object);
                if bindings.is_empty() {
                    self.bindings.remove(namespace);
                }
            }
            _ => {}
        }
    }

    /// Decides whether a user may perform an operation, and names the binding that allows it.
    pub(super) fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        if let Target::Resource(target) = &attributes.target
            && self.given(identity, target.namespace).nth(MAX_UNCACHED_BINDINGS).is_some()
        {
            let make = || self.relevant(identity, target.namespace, attributes);
            let relevant = self.relevance_cache.get_or_insert(identity, attributes.verb, target, make);
            return decide(relevant.iter(), identity, attributes);
        }
        let namespace = match &attributes.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        };
        let given = self.given(identity, namespace).map(|binding| {
            self.rules_of(&binding.role, &binding.namespace).map(|rules| (&**binding, &**rules))
        });
        decide(given, identity, attributes)
    }

    /// The bindings whose roles have a rule for the resource and verb, whatever the object's name is.
    fn relevant(
        &self,
        identity: &Identity,
        namespace: &str,
        attributes: &Attributes<'_>,
    ) -> RelevantBindings {
        let request = PreparedRequest::new(*attributes);
        let mut relevant = RelevantBindings::default();
        for binding in self.given(identity, namespace) {
            match self.rules_of(&binding.role, &binding.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.concerns(&request)) => {
                    relevant.bindings.push((binding.clone(), rules.clone()));
                }
                Ok(_) => {}
                Err(error) => relevant.errors.push(error),
            }
        }
        relevant
    }

    /// Lists the permissions of a user in a namespace.
    pub(super) fn rules(&self, identity: &Identity, namespace: &str) -> Rules {
        let mut all = Rules::default();
        let (rules, evaluation_error) = self.policy_rules(identity, namespace);
        rules.into_iter().for_each(|rule| add_rule(rule, &mut all));
        Rules { evaluation_error, ..all }
    }

    /// Returns the rules that apply to a user in a namespace, as they are in roles, and the errors of bindings without
    /// a role.
    pub(crate) fn held(&self, identity: &Identity, namespace: &str) -> (Vec<Value>, String) {
        let (rules, error) = self.policy_rules(identity, namespace);
        (rules.into_iter().map(PolicyRule::to_value).collect(), error)
    }

    fn policy_rules(&self, identity: &Identity, namespace: &str) -> (Vec<&PolicyRule>, String) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        // A binding with several subjects that match the user counts once.
        let given: BTreeMap<_, _> = self
            .given(identity, namespace)
            .map(|binding| ((&binding.namespace, binding.name()), binding))
            .collect();
        for binding in given.into_values() {
            match self.rules_of(&binding.role, &binding.namespace) {
                Ok(rules) => all.extend(rules.iter()),
                Err(error) => errors.push(error),
            }
        }
        (all, aggregate(errors))
    }

    /// Bindings that apply to a user in a namespace, ClusterRoleBindings first.
    fn given<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Arc<Binding>> + 'a {
        let of_namespace = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        std::iter::once(&self.cluster_bindings)
            .chain(of_namespace)
            .flat_map(move |bindings| bindings.given_to(identity))
    }

    /// Returns the rules of a role, or the error that it does not exist.
    fn rules_of(&self, role: &RoleRef, namespace: &str) -> std::result::Result<&Arc<[PolicyRule]>, String> {
        let found = match &*role.kind {
            "ClusterRole" => self.cluster_roles.get(&role.name),
            "Role" => self.roles.get(namespace).and_then(|roles| roles.get(&role.name)),
            other => return Err(format!("unsupported role reference kind: {}", quoted(other))),
        };
        let missing = || {
            let kind = role.kind.to_lowercase();
            format!("{kind}.rbac.authorization.k8s.io {} not found", quoted(&role.name))
        };
        found.ok_or_else(missing)
    }
}

/// Returns the first rule's permission with the name of its binding; otherwise the errors of the bindings.
fn decide<'a>(
    given: impl Iterator<Item = std::result::Result<(&'a Binding, &'a [PolicyRule]), String>>,
    identity: &Identity,
    attributes: &Attributes<'_>,
) -> Decision {
    let request = PreparedRequest::new(*attributes);
    let mut errors = Vec::new();
    for found in given {
        match found {
            Ok((binding, rules)) if rules.iter().any(|rule| rule.allows(&request)) => {
                let reason = format!("RBAC: allowed by {}", binding.describe(identity));
                return Decision { allowed: true, reason, ..Decision::default() };
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    match aggregate(errors) {
        error if error.is_empty() => Decision::default(),
        error => Decision { reason: format!("RBAC: {error}"), ..Decision::default() },
    }
}

/// The rules of a role object.
fn rules_of(role: &Value) -> Arc<[PolicyRule]> {
    PolicyRule::read_all(role).into()
}

fn put<T>(map: &mut HashMap<Box<str>, T>, name: &str, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(name.into(), value)),
        None => drop(map.remove(name)),
    }
}

/// Adds a rule to the list of permissions.
fn add_rule(rule: &PolicyRule, all: &mut Rules) {
    if !rule.resources.is_empty() {
        all.resource_rules.push(ResourceRule {
            verbs: rule.verbs.clone(),
            api_groups: rule.api_groups.clone(),
            resources: rule.resources.clone(),
            resource_names: rule.resource_names.clone(),
        });
    }
    if !rule.non_resource_urls.is_empty() {
        all.non_resource_rules.push(NonResourceRule {
            verbs: rule.verbs.clone(),
            non_resource_urls: rule.non_resource_urls.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authorization::ResourceTarget;

    const CLUSTER_ROLE: (&str, &str) = ("clusterroles", "");
    const CLUSTER_BINDING: (&str, &str) = ("clusterrolebindings", "");
    const ROLE: (&str, &str) = ("roles", "ns");
    const BINDING: (&str, &str) = ("rolebindings", "ns");

    fn put(index: &mut Index, (plural, namespace): (&str, &str), name: &str, object: Option<Value>) {
        index.note(Place { plural, namespace, name }, object.as_ref());
    }

    fn role(verb: &str) -> Option<Value> {
        Some(json!({"rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]}))
    }

    fn binding(kind: &str, role: &str, subjects: Value) -> Option<Value> {
        Some(json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}, "subjects": subjects}))
    }

    fn authorize(index: &Index, user: &str, groups: &[&str], verb: &str, namespace: &str) -> Decision {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let identity = Identity { name: user.to_owned(), groups, ..Identity::default() };
        let target = ResourceTarget { resource: "pods", namespace, ..ResourceTarget::default() };
        index.authorize(&identity, &Attributes { verb, target: Target::Resource(target) })
    }

    fn reason(index: &Index, user: &str, groups: &[&str], verb: &str, namespace: &str) -> String {
        let decision = authorize(index, user, groups, verb, namespace);
        assert!(!decision.denied);
        if decision.allowed { decision.reason } else { format!("no {}", decision.reason) }
    }

    #[test]
    fn bound_subject_is_allowed_with_a_reason() {
        let mut index = Index::default();
        put(&mut index, CLUSTER_ROLE, "get", role("get"));
        put(&mut index, ROLE, "list", role("list"));
        let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}]);
        put(&mut index, CLUSTER_BINDING, "c", binding("ClusterRole", "get", subjects));
        let account = json!([{"kind": "ServiceAccount", "name": "robot"}]);
        put(&mut index, BINDING, "b", binding("Role", "list", account.clone()));
        let elsewhere = json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "far"}]);
        put(&mut index, BINDING, "far", binding("ClusterRole", "get", elsewhere));

        let through_user = "RBAC: allowed by ClusterRoleBinding \"c\" of ClusterRole \"get\" to User \"u\"";
        assert_eq!(reason(&index, "u", &["g"], "get", ""), through_user);
        let through_group = "RBAC: allowed by ClusterRoleBinding \"c\" of ClusterRole \"get\" to Group \"g\"";
        assert_eq!(reason(&index, "x", &["other", "g"], "get", "ns"), through_group);
        assert_eq!(
            reason(&index, "system:serviceaccount:ns:robot", &[], "list", "ns"),
            "RBAC: allowed by RoleBinding \"b/ns\" of Role \"list\" to ServiceAccount \"robot/ns\""
        );
        assert_eq!(
            reason(&index, "system:serviceaccount:far:robot", &[], "get", "ns"),
            "RBAC: allowed by RoleBinding \"far/ns\" of ClusterRole \"get\" to ServiceAccount \"robot/far\""
        );
        for (user, groups, verb, namespace) in [
            ("g", &["u"][..], "get", ""),
            ("u", &[][..], "list", "ns"),
            ("system:serviceaccount:ns:robot", &[], "list", "far"),
            ("system:serviceaccount:ns:robot", &[], "list", ""),
            ("system:serviceaccount:far:robot", &[], "list", "ns"),
            ("robot", &[], "list", "ns"),
        ] {
            assert_eq!(reason(&index, user, groups, verb, namespace), "no ", "{user} {verb} {namespace}");
        }
    }

    #[test]
    fn account_without_namespace_in_a_cluster_role_binding_matches_nobody() {
        let mut index = Index::default();
        put(&mut index, CLUSTER_ROLE, "get", role("get"));
        let subjects = json!([{"kind": "ServiceAccount", "name": "robot"}, {"kind": "Dog", "name": "rex"}]);
        put(&mut index, CLUSTER_BINDING, "c", binding("ClusterRole", "get", subjects));
        for user in ["system:serviceaccount::robot", "system:serviceaccount:ns:robot", "rex"] {
            assert_eq!(reason(&index, user, &[], "get", ""), "no ");
        }
    }

    #[test]
    fn missing_role_is_reported_and_other_bindings_still_apply() {
        let mut index = Index::default();
        let user = || json!([{"kind": "User", "name": "u"}]);
        put(&mut index, CLUSTER_BINDING, "a", binding("ClusterRole", "gone", user()));
        let missing = "no RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found";
        assert_eq!(reason(&index, "u", &[], "get", ""), missing);
        put(&mut index, BINDING, "b", binding("Role", "gone", user()));
        assert_eq!(
            reason(&index, "u", &[], "get", "ns"),
            "no RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, \
             role.rbac.authorization.k8s.io \"gone\" not found]"
        );
        put(&mut index, CLUSTER_BINDING, "z", binding("ClusterRole", "get", user()));
        put(&mut index, CLUSTER_ROLE, "get", role("get"));
        assert!(authorize(&index, "u", &[], "get", "ns").allowed);
    }

    #[test]
    fn cached_bindings_of_a_user_are_never_stale() {
        let mut index = Index::default();
        let user = || json!([{"kind": "User", "name": "u"}]);
        for number in 0..2 * MAX_UNCACHED_BINDINGS {
            let name = format!("r{number:02}");
            put(&mut index, ROLE, &name, role(&format!("verb-{number}")));
            put(&mut index, BINDING, &name, binding("Role", &name, user()));
        }
        for _ in 0..2 {
            assert!(authorize(&index, "u", &[], "verb-20", "ns").allowed);
            assert!(!authorize(&index, "u", &[], "get", "ns").allowed);
            assert!(!authorize(&index, "v", &[], "verb-20", "ns").allowed);
            assert!(!authorize(&index, "u", &[], "verb-20", "other").allowed);
        }
        let named = json!({"rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]},
        ]});
        put(&mut index, ROLE, "r20", Some(named));
        let get = |name| {
            let target =
                ResourceTarget { resource: "pods", namespace: "ns", name, ..ResourceTarget::default() };
            let identity = Identity { name: "u".to_owned(), ..Identity::default() };
            index.authorize(&identity, &Attributes { verb: "get", target: Target::Resource(target) }).allowed
        };
        for _ in 0..2 {
            assert_eq!((get("p"), get("q")), (true, false), "names are asked for each time");
            assert!(!authorize(&index, "u", &[], "verb-20", "ns").allowed);
        }
    }

    #[test]
    fn changed_or_deleted_objects_no_longer_apply() {
        let mut index = Index::default();
        let subjects = |name: &str| json!([{"kind": "User", "name": name}, {"kind": "Group", "name": name}]);
        put(&mut index, CLUSTER_ROLE, "get", role("get"));
        put(&mut index, BINDING, "b", binding("ClusterRole", "get", subjects("a")));
        assert!(authorize(&index, "a", &[], "get", "ns").allowed);
        put(&mut index, BINDING, "b", binding("ClusterRole", "get", subjects("b")));
        assert!(!authorize(&index, "a", &["a"], "get", "ns").allowed);
        assert!(authorize(&index, "b", &[], "get", "ns").allowed);
        assert!(authorize(&index, "x", &["b"], "get", "ns").allowed);
        put(&mut index, CLUSTER_ROLE, "get", role("list"));
        assert!(!authorize(&index, "b", &[], "get", "ns").allowed);
        assert!(authorize(&index, "b", &[], "list", "ns").allowed);
        put(&mut index, BINDING, "b", None);
        assert!(!authorize(&index, "b", &["b"], "list", "ns").allowed);
        put(&mut index, CLUSTER_ROLE, "get", None);
        assert!(index.bindings.is_empty() && index.cluster_roles.is_empty(), "nothing stays behind");
    }
}
