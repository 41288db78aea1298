//! RBACEscalation: prevents privilege escalation. A user who writes a role must hold all its permissions, or may
//! `escalate` it; a user who writes a binding must hold all permissions of the role, or may `bind` it.
//!
//! kube-apiserver checks this in the storage of roles and bindings (`pkg/registry/rbac/*/policybased`), after all
//! mutation and before validation; so this is the last mutating plugin. It reads the stored roles instead of the cached
//! ones of the authorizer, which may be stale.

use std::sync::Arc;

use coracle_meta::field::quoted;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::rbac::cluster_role::ClusterRole;
use coracle_registry::kinds::rbac::permission::missing;
use coracle_registry::kinds::rbac::role::Role;
use coracle_registry::{Error, Identity, Kind, Result, Subject, view};
use serde_json::{Value, json};

use super::plugin::{Plugin, Rule, nothing_to_say};
use crate::authorization::rbac::{GROUP, Index, RoleRef, compact_rules, list};
use crate::authorization::{self, Authorizer, ResourceTarget, Target, is_master};

/// Metadata that the garbage collector changes before it deletes an object.
const OF_GARBAGE_COLLECTION: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];

/// The wildcard of rules.
const ALL: &str = "*";

pub(super) struct RbacEscalation {
    authorizer: Arc<dyn Authorizer>,
}

impl RbacEscalation {
    /// Creates the plugin; `authorizer` decides who may `escalate` and `bind`.
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer }
    }

    async fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<()> {
        match &*attributes.write.kind.declaration().plural {
            "roles" | "clusterroles" => self.check_role(attributes, object).await,
            _ => self.check_binding(attributes, object).await,
        }
    }

    async fn check_role(&self, attributes: &Attributes<'_>, role: &Value) -> Result<()> {
        let write = attributes.write;
        let resource = ResourceTarget {
            group: GROUP,
            version: ALL,
            resource: &write.kind.declaration().plural,
            namespace: write.namespace,
            // The name of a new object is not considered, so `escalate` on a single name does not apply to it.
            name: if attributes.operation == Operation::Create { "" } else { attributes.name },
            ..ResourceTarget::default()
        };
        if self.may(attributes, "escalate", resource).await? {
            return Ok(());
        }
        let held = Held::by(attributes).await?;
        held.confirm(rules(role)).map_err(|why| forbidden(attributes, role, why))?;
        // The rules of an aggregated role can become anything.
        if aggregates(role) || attributes.old.is_some_and(aggregates) {
            let why = "must have cluster-admin privileges to use the aggregationRule".to_owned();
            held.confirm(&everything()).map_err(|_| forbidden(attributes, role, why))?;
        }
        Ok(())
    }

    async fn check_binding(&self, attributes: &Attributes<'_>, binding: &Value) -> Result<()> {
        let namespace = attributes.write.namespace;
        let RoleRef { api_group, kind, name } = RoleRef::read(binding);
        let (resource, role_kind, place): (_, &dyn Kind, _) = match &*kind {
            "ClusterRole" => ("clusterroles", &ClusterRole, ""),
            "Role" => ("roles", &Role, namespace),
            other => {
                return Err(Error::Unspecific(format!("unsupported role reference kind: {}", quoted(other))));
            }
        };
        let role = ResourceTarget {
            group: &api_group,
            version: ALL,
            resource,
            namespace,
            name: &name,
            ..ResourceTarget::default()
        };
        if self.may(attributes, "bind", role).await? {
            return Ok(());
        }
        let Some(role) = attributes.cluster.find(role_kind, place, &name).await? else {
            // kube-apiserver reports the missing role with the kind that is being written.
            return Err(Error::NotFound(Box::new(Subject::of(attributes.write.kind.declaration(), &name))));
        };
        let confirmed = Held::by(attributes).await?.confirm(rules(&role));
        confirmed.map_err(|why| forbidden(attributes, binding, why))
    }

    async fn may(
        &self,
        attributes: &Attributes<'_>,
        verb: &str,
        resource: ResourceTarget<'_>,
    ) -> Result<bool> {
        let asked = authorization::Attributes { verb, target: Target::Resource(resource) };
        let decided = self.authorizer.authorize(attributes.cluster, attributes.write.requester, &asked);
        Ok(decided.await?.allowed)
    }
}

impl Plugin for RbacEscalation {
    fn name(&self) -> &str {
        "RBACEscalation"
    }

    fn mutates(&self) -> Vec<Rule> {
        let writes = [Operation::Create, Operation::Update];
        let resources = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
        resources.into_iter().map(|resource| Rule::new(GROUP, resource, &writes)).collect()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let collected = attributes.old.is_some_and(|old| is_only_collected(object, old));
        if collected || is_master(attributes.write.requester) {
            return nothing_to_say();
        }
        Box::pin(self.check(attributes, object))
    }
}

/// The permissions of the requester.
struct Held<'a> {
    requester: &'a Identity,
    rules: Vec<Value>,
    error: String,
}

impl<'a> Held<'a> {
    async fn by(attributes: &Attributes<'a>) -> Result<Self> {
        let requester = attributes.write.requester;
        let index = Index::read(attributes.cluster).await?;
        let (rules, error) = index.held(requester, attributes.write.namespace);
        Ok(Self { requester, rules, error })
    }

    /// Checks that these rules grant nothing more; the error lists the missing permissions, with kube-apiserver's text.
    fn confirm(&self, rules: &[Value]) -> Result<(), String> {
        let missing = missing(&self.rules, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let (user, groups) = (quoted(&self.requester.name), list(&self.requester.groups));
        let mut message = format!(
            "user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
            compact_rules(&missing).join("\n")
        );
        if !self.error.is_empty() {
            message.push_str(&format!("; resolution errors: [{}]", self.error));
        }
        Err(message)
    }
}

fn forbidden(attributes: &Attributes<'_>, object: &Value, message: String) -> Error {
    let subject = Subject::of(attributes.write.kind.declaration(), view::name(object));
    Error::Forbidden { subject: Box::new(subject), message }
}

fn aggregates(role: &Value) -> bool {
    !view::items(role, &["aggregationRule", "clusterRoleSelectors"]).is_empty()
}

fn rules(role: &Value) -> &[Value] {
    view::items(role, &["rules"])
}

fn everything() -> [Value; 2] {
    [
        json!({"verbs": [ALL], "apiGroups": [ALL], "resources": [ALL]}),
        json!({"verbs": [ALL], "nonResourceURLs": [ALL]}),
    ]
}

/// Returns true if the garbage collector's metadata is all that changed.
fn is_only_collected(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !OF_GARBAGE_COLLECTION.contains(&field.as_str()));
        }
        object
    };
    rest(new) == rest(old)
}
