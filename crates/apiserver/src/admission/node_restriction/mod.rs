//! NodeRestriction: a node may write only its own objects, and what its own pods need.
//!
//! The Node authorizer decides by names alone. Rules that depend on the content of the object are checked here, as in
//! kube-apiserver's plugin of the same name.

mod audience;
mod mirror;
mod node;
mod others;
mod pod;
mod token;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_meta::gvk::GroupResource;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Error, Kind, Result, Subject};
use serde_json::Value;

use super::plugin::{Plugin, Rule, forbidden, nothing_to_say};
use super::{CERTIFICATE_SIGNING_REQUESTS, CERTIFICATES, PERSISTENT_VOLUME_CLAIMS, PODS};
use crate::authorization::Authorizer;
use crate::identity::{NODE_USER_PREFIX, node_name};

const NODES: &str = "nodes";
const SERVICE_ACCOUNTS: &str = "serviceaccounts";
const LEASES: &str = "leases";
const CSI_NODES: &str = "csinodes";
const RESOURCE_SLICES: &str = "resourceslices";

/// Groups and resources whose writes by nodes are restricted, including their subresources.
///
/// `podcertificaterequests` is missing because the kind is served only with a feature that is off by default.
const RESTRICTED: &[(&str, &str)] = &[
    ("", PODS),
    ("", NODES),
    ("", PERSISTENT_VOLUME_CLAIMS),
    ("", SERVICE_ACCOUNTS),
    ("coordination.k8s.io", LEASES),
    ("storage.k8s.io", CSI_NODES),
    ("resource.k8s.io", RESOURCE_SLICES),
    (CERTIFICATES, CERTIFICATE_SIGNING_REQUESTS),
];

pub(super) struct NodeRestriction {
    authorizer: Arc<dyn Authorizer>,
}

impl NodeRestriction {
    /// Creates the plugin; `authorizer` decides about token audiences that no volume of the pod names.
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer }
    }

    fn ask<'a>(&'a self, attributes: &'a Attributes<'a>, object: &'a Value) -> BoxFuture<'a, Result<()>> {
        // Users that are not nodes, which are nearly all, are not restricted.
        match node_name(attributes.write.requester) {
            None => nothing_to_say(),
            Some(node) => Box::pin(async move { self.judge(&Request { node, attributes, object }).await }),
        }
    }

    async fn judge(&self, request: &Request<'_>) -> Result<()> {
        if request.node.is_empty() {
            let user = &request.attributes.write.requester.name;
            return request.refuse(format!("could not determine node from user {user:?}"));
        }
        match (&*request.attributes.write.kind.declaration().plural, request.part()) {
            (PODS, "") => pod::judge(request).await,
            (PODS, "status") => pod::judge_status(request),
            (PODS, "eviction") => pod::judge_eviction(request).await,
            (PODS, part) => request.refuse(format!(
                "unexpected pod subresource {part:?}, only 'status' and 'eviction' are allowed"
            )),
            (NODES, _) => node::judge(request),
            (PERSISTENT_VOLUME_CLAIMS, "status") => others::judge_claim_status(request),
            (PERSISTENT_VOLUME_CLAIMS, _) => request.refuse("may only update PVC status"),
            (SERVICE_ACCOUNTS, "token") => token::judge(request, &*self.authorizer).await,
            (LEASES, _) => others::judge_lease(request),
            (CSI_NODES, _) => others::judge_csi_node(request),
            (RESOURCE_SLICES, _) => others::judge_resource_slice(request),
            (CERTIFICATE_SIGNING_REQUESTS, _) => others::judge_certificate_request(request),
            _ => Ok(()),
        }
    }
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &str {
        "NodeRestriction"
    }

    fn mutates(&self) -> Vec<Rule> {
        rules(&[Operation::Create, Operation::Update])
    }

    /// Deletions run validating plugins only.
    fn validates(&self) -> Vec<Rule> {
        rules(&[Operation::Delete])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        self.ask(attributes, object)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        self.ask(attributes, object)
    }
}

fn rules(operations: &[Operation]) -> Vec<Rule> {
    let rule = |&(group, resource): &(_, _)| Rule::new(group, resource, operations).of_subresource("*");
    RESTRICTED.iter().map(rule).collect()
}

/// A write by a node.
struct Request<'a> {
    node: &'a str,
    attributes: &'a Attributes<'a>,
    object: &'a Value,
}

impl Request<'_> {
    fn part(&self) -> &str {
        self.attributes.write.subresource
    }

    fn operation(&self) -> Operation {
        self.attributes.operation
    }

    /// The stored object; null for a create.
    fn old(&self) -> &Value {
        self.attributes.old.unwrap_or(&Value::Null)
    }

    /// The name of the object; empty if the server generates it, whatever `generateName` is: kube-apiserver generates
    /// names after this plugin, so that a node never creates an object with a generated name.
    fn name(&self) -> &str {
        let own = coracle_registry::view::name(self.object);
        let is_new = self.operation() == Operation::Create && self.part().is_empty();
        match self.attributes.name {
            "" => own,
            // The attributes of an object with a generated name have the prefix as name.
            prefix if is_new && prefix != own => "",
            name => name,
        }
    }

    fn forbidden(&self, message: impl Into<String>) -> Error {
        forbidden(self.attributes, self.object, message)
    }

    fn refuse(&self, message: impl Into<String>) -> Result<()> {
        Err(self.forbidden(message))
    }

    fn unexpected_operation(&self) -> Result<()> {
        self.refuse(format!("unexpected operation {:?}", spelled(self.operation())))
    }

    /// Reads another object; fails if it does not exist.
    async fn find(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Result<Arc<Value>> {
        let found = self.attributes.cluster.find(kind, namespace, name).await?;
        found.ok_or_else(|| not_found(kind, name))
    }
}

/// The informers of kube-apiserver report missing objects by the singular resource name.
fn not_found(kind: &dyn Kind, name: &str) -> Error {
    let declaration = kind.declaration();
    let (group, resource) = (declaration.group.clone(), declaration.singular.clone());
    let resource = GroupResource { group, resource };
    Error::NotFound(Box::new(Subject { resource, ..Subject::of(declaration, name) }))
}

/// The operation, spelled as in kube-apiserver.
fn spelled(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// The user name in a node's certificates.
fn user_of(node: &str) -> String {
    format!("{NODE_USER_PREFIX}{node}")
}
