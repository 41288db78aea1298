//! CreateAuthorization: creating an object by an update or an apply requires permission to create it.
//!
//! A PUT or an apply is authorized as an update or a patch, before it is known that the object does not exist.
//! kube-apiserver authorizes again once this is known (`withAuthorization` in its handlers), before validating
//! admission. A POST was authorized to create already, and is authorized again.

use std::sync::Arc;

use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Error, Result};
use serde_json::Value;

use super::plugin::{Plugin, Rule};
use crate::authorization::{self, Authorizer, ResourceTarget, Target};

pub(super) struct CreateAuthorization {
    authorizer: Arc<dyn Authorizer>,
}

impl CreateAuthorization {
    /// Creates the plugin; `authorizer` decides who may create.
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer }
    }
}

impl Plugin for CreateAuthorization {
    fn name(&self) -> &str {
        "CreateAuthorization"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::any(&[Operation::Create])]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (write, declaration) = (attributes.write, attributes.write.kind.declaration());
            let is_namespace = declaration.group.is_empty() && declaration.plural == "namespaces";
            let target = ResourceTarget {
                group: &declaration.group,
                version: write.served_version,
                resource: &declaration.plural,
                // A namespace belongs to itself.
                namespace: if is_namespace { attributes.name } else { write.namespace },
                name: attributes.name,
                ..ResourceTarget::default()
            };
            let asked = authorization::Attributes { verb: "create", target: Target::Resource(target) };
            let decided = self.authorizer.authorize(attributes.cluster, write.requester, &asked).await?;
            if decided.allowed {
                return Ok(());
            }
            let status = authorization::forbidden(write.requester, &asked, &decided.reason);
            Err(Error::Refused(Box::new(status)))
        })
    }
}
