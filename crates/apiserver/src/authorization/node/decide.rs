//! The rules of the Node authorizer, as in Kubernetes (`plugin/pkg/auth/authorizer/node/node_authorizer.go`).
//!
//! Rules that depend on the content of a write are checked by admission: see `NodeRestriction`.

use super::graph::{CLAIMS, CONFIG_MAPS, Graph, RESOURCE_CLAIMS, SECRETS, SERVICE_ACCOUNTS};
use crate::authorization::{Attributes, Decision, ResourceTarget, Target};

/// The namespace with the leases of all nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

const COORDINATION: &str = "coordination.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";

const READ: &[&str] = &["get", "list", "watch"];

/// Permissions of every node that do not depend on the node: the remainder of `NodeRules` in
/// `bootstrappolicy/policy.go` of Kubernetes after the rules below.
const FOR_ALL: &[(&str, &str, &[&str])] = &[
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "localsubjectaccessreviews", &["create"]),
    ("", "services", READ),
    ("", "events", &["create", "update", "patch"]),
    ("events.k8s.io", "events", &["create", "update", "patch"]),
    ("", "endpoints", &["get"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["create", "get", "list", "watch"]),
    (STORAGE, "csidrivers", READ),
    ("node.k8s.io", "runtimeclasses", READ),
];

/// Returns true if the decision depends on the graph of objects that nodes need. Most requests of nodes are about the
/// node itself.
pub(super) fn is_about_needs(attributes: &Attributes<'_>) -> bool {
    let Target::Resource(target) = &attributes.target else { return false };
    match (target.group, target.resource) {
        ("", SECRETS | CONFIG_MAPS | CLAIMS | SERVICE_ACCOUNTS | "persistentvolumes") => true,
        (RESOURCE, _) | (STORAGE, "volumeattachments") => true,
        ("", "pods") => !target.name.is_empty() && READ.contains(&attributes.verb),
        _ => false,
    }
}

/// Decides whether a node may perform an operation; without permission the decision has a reason.
pub(super) fn decide(graph: &Graph, node: &str, attributes: &Attributes<'_>) -> Decision {
    let Target::Resource(target) = &attributes.target else { return Decision::default() };
    let request = NodeRequest { graph, node, verb: attributes.verb, target };
    match request.decide() {
        Ok(()) => Decision { allowed: true, ..Decision::default() },
        Err(reason) => Decision { reason, ..Decision::default() },
    }
}

/// A request of a node.
struct NodeRequest<'a> {
    graph: &'a Graph,
    node: &'a str,
    verb: &'a str,
    target: &'a ResourceTarget<'a>,
}

/// Allowed, or the reason why the Node authorizer has no opinion.
type Outcome = Result<(), String>;

fn no_opinion(reason: &str) -> Outcome {
    Err(reason.to_owned())
}

impl NodeRequest<'_> {
    fn decide(&self) -> Outcome {
        let ResourceTarget { group, resource, subresource, .. } = *self.target;
        match (group, resource) {
            ("", SECRETS | CONFIG_MAPS) => self.read_needed(),
            ("", CLAIMS) if subresource == "status" => self.update_claim_status(),
            ("", CLAIMS) | (RESOURCE, RESOURCE_CLAIMS) => self.get(|request| request.is_needed()),
            ("", "persistentvolumes") => {
                self.get(|request| request.graph.needs_volume(request.node, request.target.name))
            }
            (STORAGE, "volumeattachments") => {
                self.get(|request| request.graph.has_attachment(request.node, request.target.name))
            }
            ("", SERVICE_ACCOUNTS) if self.verb == "get" && subresource.is_empty() => self.read_needed(),
            ("", SERVICE_ACCOUNTS) => self.create_token(),
            (COORDINATION, "leases") => self.lease(),
            (STORAGE, "csinodes") => self.csi_node(),
            (RESOURCE, "resourceslices") => self.slices(),
            ("", "nodes") => self.nodes(),
            ("", "pods") => self.pods(),
            _ if self.is_for_all() => Ok(()),
            _ => no_opinion(""),
        }
    }

    fn is_for_all(&self) -> bool {
        let ResourceTarget { group, resource, subresource, .. } = *self.target;
        let allows = |(of, what, verbs): &(&str, &str, &[&str])| {
            *of == group && *what == resource && verbs.contains(&self.verb)
        };
        subresource.is_empty() && FOR_ALL.iter().any(allows)
    }

    fn is_needed(&self) -> bool {
        let ResourceTarget { resource, namespace, name, .. } = *self.target;
        self.graph.needs(self.node, resource, namespace, name)
    }

    fn has_pod(&self) -> bool {
        self.graph.has_pod(self.node, self.target.namespace, self.target.name)
    }

    /// Allows the request if the named object is related to the node.
    fn related(&self, is_related: impl FnOnce(&Self) -> bool) -> Outcome {
        if self.target.name.is_empty() {
            return no_opinion("No Object name found");
        }
        if is_related(self) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn get(&self, is_related: impl FnOnce(&Self) -> bool) -> Outcome {
        if self.verb != "get" {
            return no_opinion("can only get individual resources of this type");
        }
        if !self.target.subresource.is_empty() {
            return no_opinion("cannot get subresource");
        }
        self.related(is_related)
    }

    fn read_needed(&self) -> Outcome {
        if !READ.contains(&self.verb) {
            return no_opinion("can only read resources of this type");
        }
        if !self.target.subresource.is_empty() {
            return no_opinion("cannot read subresource");
        }
        if self.target.namespace.is_empty() {
            return no_opinion("can only read namespaced object of this type");
        }
        self.related(Self::is_needed)
    }

    fn update_claim_status(&self) -> Outcome {
        if !matches!(self.verb, "update" | "patch") {
            return no_opinion("can only get/update/patch this type");
        }
        self.related(Self::is_needed)
    }

    fn create_token(&self) -> Outcome {
        if self.verb != "create" || self.target.name.is_empty() {
            return no_opinion("can only create tokens for individual service accounts");
        }
        if self.target.subresource != "token" {
            return no_opinion("can only create token subresource of serviceaccount");
        }
        self.related(Self::is_needed)
    }

    /// Checks the verb for the one object that has the node's name.
    fn check_own_verb(&self, what: &str) -> Outcome {
        if matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return Ok(());
        }
        Err(format!("can only get, create, update, patch, or delete a {what}"))
    }

    /// A create request has no name to compare yet.
    fn check_own_name(&self, refusal: &str) -> Outcome {
        if self.verb == "create" || self.target.name == self.node { Ok(()) } else { no_opinion(refusal) }
    }

    fn lease(&self) -> Outcome {
        self.check_own_verb("node lease")?;
        if self.target.namespace != LEASE_NAMESPACE {
            return Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
        }
        self.check_own_name("can only access node lease with the same name as the requesting node")
    }

    fn csi_node(&self) -> Outcome {
        self.check_own_verb("CSINode")?;
        if !self.target.subresource.is_empty() {
            return no_opinion("cannot authorize CSINode subresources");
        }
        self.check_own_name("can only access CSINode with the same name as the requesting node")
    }

    fn slices(&self) -> Outcome {
        if !self.target.subresource.is_empty() {
            return no_opinion("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            // Admission checks the node of the slice.
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(|request| request.graph.has_slice(request.node, request.target.name))
            }
            "watch" | "list" | "deletecollection" if self.selects_own() => Ok(()),
            "watch" | "list" | "deletecollection" => {
                no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no_opinion(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn nodes(&self) -> Outcome {
        let (node, name) = (self.node, self.target.name);
        match (self.target.subresource, self.verb) {
            // Admission checks that it is the node itself.
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no_opinion(""),
        }
    }

    fn pods(&self) -> Outcome {
        match (self.target.subresource, self.verb) {
            ("", "get") => self.get(Self::has_pod),
            ("", "list" | "watch") if self.selects_own() => Ok(()),
            ("", "list" | "watch") if !self.target.name.is_empty() => self.related(Self::has_pod),
            ("", "list" | "watch") => {
                no_opinion("can only list/watch pods with spec.nodeName field selector")
            }
            // Admission checks that the pods are bound to the node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => no_opinion(""),
        }
    }

    /// Returns true if the field selector restricts the request to objects of the node.
    fn selects_own(&self) -> bool {
        let mut requirements = self.target.field_selector.iter();
        requirements.any(|required| {
            required.equal && *required.field == *"spec.nodeName" && *required.value == *self.node
        })
    }
}

#[cfg(test)]
mod tests {
    use coracle_meta::selector::fields::Requirement;
    use serde_json::json;

    use super::*;

    /// A graph in which node `a` has the pod `n/p`, which refers to objects called `x`.
    fn graph() -> Graph {
        let mut graph = Graph::default();
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "nodeName": "a", "serviceAccountName": "x",
                "volumes": [
                    {"name": "s", "secret": {"secretName": "x"}}, {"name": "m", "configMap": {"name": "x"}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
                ],
                "resourceClaims": [{"name": "r", "resourceClaimName": "x"}],
            },
        });
        graph.note_pod("n", "p", Some(&pod));
        let volume = json!({"spec": {"claimRef": {"namespace": "n", "name": "x"}}});
        graph.note_volume("x", Some(&volume));
        graph.note_attachment("x", Some(&json!({"spec": {"nodeName": "a"}})));
        graph.note_slice("x", Some(&json!({"spec": {"nodeName": "a"}})));
        graph
    }

    /// The decision on a request of `node` in the form `VERB GROUP RESOURCE[/SUBRESOURCE] NAMESPACE/NAME`.
    fn ask(graph: &Graph, node: &str, question: &str, selector: &[Requirement]) -> Result<(), String> {
        let words: Vec<&str> = question.split(' ').collect();
        let [verb, group, resource, place] = words[..] else { panic!("{question}") };
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (namespace, name) = place.split_once('/').unwrap();
        let group = if group == "-" { "" } else { group };
        let target = ResourceTarget {
            group,
            resource,
            subresource,
            namespace,
            name,
            field_selector: selector,
            ..ResourceTarget::default()
        };
        let attributes = Attributes { verb, target: Target::Resource(target) };
        let empty = Graph::default();
        let graph = if is_about_needs(&attributes) { graph } else { &empty };
        match decide(graph, node, &attributes) {
            Decision { allowed: true, .. } => Ok(()),
            Decision { reason, .. } => Err(reason),
        }
    }

    #[test]
    fn node_reads_only_objects_that_its_pods_refer_to() {
        let graph = graph();
        let unrelated = Err("no relationship found between node 'b' and this object".to_owned());
        for question in [
            "get - secrets n/x",
            "list - secrets n/x",
            "watch - secrets n/x",
            "get - configmaps n/x",
            "watch - configmaps n/x",
            "get - persistentvolumeclaims n/x",
            "update - persistentvolumeclaims/status n/x",
            "patch - persistentvolumeclaims/status n/x",
            "get - persistentvolumes /x",
            "get resource.k8s.io resourceclaims n/x",
            "get storage.k8s.io volumeattachments /x",
            "get - serviceaccounts n/x",
            "create - serviceaccounts/token n/x",
            "get resource.k8s.io resourceslices /x",
            "delete resource.k8s.io resourceslices /x",
            "get - pods n/p",
            "watch - pods n/p",
        ] {
            assert_eq!(ask(&graph, "a", question, &[]), Ok(()), "{question}");
            assert_eq!(ask(&graph, "b", question, &[]), unrelated, "{question}");
            let other = question.replace("n/", "other/");
            if other != question {
                assert!(ask(&graph, "a", &other, &[]).is_err(), "{other}");
            }
        }
    }

    #[test]
    fn node_accesses_only_its_own_objects() {
        let graph = Graph::default();
        for question in [
            "get - nodes /a",
            "watch - nodes /a",
            "create - nodes /",
            "update - nodes /b",
            "patch - nodes/status /b",
            "create coordination.k8s.io leases kube-node-lease/",
            "get coordination.k8s.io leases kube-node-lease/a",
            "update coordination.k8s.io leases kube-node-lease/a",
            "create storage.k8s.io csinodes /",
            "delete storage.k8s.io csinodes /a",
            "create resource.k8s.io resourceslices /",
            "create - pods n/",
            "delete - pods n/p",
            "patch - pods/status n/p",
            "create - pods/eviction n/p",
            "create authentication.k8s.io tokenreviews /",
            "list - services /",
            "create - events n/",
            "patch events.k8s.io events n/e",
            "get - endpoints n/e",
            "create certificates.k8s.io certificatesigningrequests /",
            "watch storage.k8s.io csidrivers /",
            "get node.k8s.io runtimeclasses /r",
        ] {
            assert_eq!(ask(&graph, "a", question, &[]), Ok(()), "{question}");
        }
    }

    #[test]
    fn reasons_are_those_of_kube_apiserver() {
        let graph = graph();
        for (question, reason) in [
            ("list - secrets n/", "No Object name found"),
            ("create - secrets n/x", "can only read resources of this type"),
            ("get - secrets/status n/x", "cannot read subresource"),
            ("list - secrets /", "can only read namespaced object of this type"),
            ("list - persistentvolumeclaims n/", "can only get individual resources of this type"),
            ("get - persistentvolumeclaims/status n/x", "can only get/update/patch this type"),
            ("get - persistentvolumes/status /x", "cannot get subresource"),
            ("list - serviceaccounts n/", "can only create tokens for individual service accounts"),
            ("create - serviceaccounts n/x", "can only create token subresource of serviceaccount"),
            (
                "list coordination.k8s.io leases kube-node-lease/",
                "can only get, create, update, patch, or delete a node lease",
            ),
            (
                "get coordination.k8s.io leases default/a",
                "can only access leases in the \"kube-node-lease\" system namespace",
            ),
            (
                "update coordination.k8s.io leases kube-node-lease/b",
                "can only access node lease with the same name as the requesting node",
            ),
            ("list storage.k8s.io csinodes /", "can only get, create, update, patch, or delete a CSINode"),
            ("get storage.k8s.io csinodes/status /a", "cannot authorize CSINode subresources"),
            (
                "get storage.k8s.io csinodes /b",
                "can only access CSINode with the same name as the requesting node",
            ),
            ("get resource.k8s.io resourceslices/status /x", "cannot authorize ResourceSlice subresources"),
            (
                "list resource.k8s.io resourceslices /",
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            ("list - nodes /", "node 'a' cannot read all nodes, only its own Node object"),
            ("get - nodes /b", "node 'a' cannot read 'b', only its own Node object"),
            ("delete - nodes /a", ""),
            ("get - nodes/proxy /a", ""),
            ("list - pods n/", "can only list/watch pods with spec.nodeName field selector"),
            ("update - pods n/p", ""),
            ("get - pods/log n/p", ""),
            ("create - pods/exec n/p", ""),
            ("get - namespaces /n", ""),
            ("create rbac.authorization.k8s.io clusterrolebindings /", ""),
        ] {
            assert_eq!(ask(&graph, "a", question, &[]), Err(reason.to_owned()), "{question}");
        }
    }

    #[test]
    fn list_must_select_objects_of_the_node() {
        let graph = Graph::default();
        let selects = |field: &str, equal: bool, value: &str| {
            vec![Requirement { field: field.into(), equal, value: value.into() }]
        };
        for question in [
            "list - pods /",
            "watch - pods n/",
            "list resource.k8s.io resourceslices /",
            "deletecollection resource.k8s.io resourceslices /",
        ] {
            assert!(ask(&graph, "a", question, &selects("spec.nodeName", true, "a")).is_ok(), "{question}");
            for wrong in [
                selects("spec.nodeName", true, "b"),
                selects("spec.nodeName", false, "a"),
                selects("metadata.name", true, "a"),
            ] {
                assert!(ask(&graph, "a", question, &wrong).is_err(), "{question} {wrong:?}");
            }
        }
    }

    #[test]
    fn non_resource_paths_have_no_opinion() {
        let attributes = Attributes { verb: "get", target: Target::Path("/metrics") };
        assert_eq!(decide(&graph(), "a", &attributes), Decision::default());
    }
}
