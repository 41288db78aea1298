//! The interface of admission plugins.

use std::borrow::Cow;

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Error, Result, Subject};
use serde_json::Value;

use super::pass::Pass;

/// An admission plugin, called for the writes that it declares.
///
/// A plugin may change the object, in [`Plugin::mutate`], or reject the write, in either method. All mutation comes
/// before all validation, so validating plugins see the object as it will be stored. Both methods run again if another
/// write was committed first, so they must not rely on being called once.
///
/// [`Chain::with`](super::Chain::with) adds a plugin of an embedder:
///
/// ```
/// use std::sync::Arc;
///
/// use coracle_apiserver::admission::{
///     Attributes, BoxFuture, Chain, Operation, Plugin, Result, Rule, forbidden, view,
/// };
/// use coracle_apiserver::{Authorizer, MastersOnly};
/// use serde_json::Value;
///
/// /// Every new namespace names the team that pays for it.
/// struct CostCenter;
///
/// impl Plugin for CostCenter {
///     fn name(&self) -> &str {
///         "CostCenter"
///     }
///
///     fn validates(&self) -> Vec<Rule> {
///         vec![Rule::new("", "namespaces", &[Operation::Create])]
///     }
///
///     fn validate<'a>(
///         &'a self,
///         attributes: &'a Attributes<'a>,
///         object: &'a Value,
///         _warnings: &'a mut Vec<String>,
///     ) -> BoxFuture<'a, Result<()>> {
///         Box::pin(async move {
///             match view::text(object, &["metadata", "labels", "team"]) {
///                 "" => Err(forbidden(attributes, object, "a namespace needs the label team")),
///                 _ => Ok(()),
///             }
///         })
///     }
/// }
///
/// let authorizer: Arc<dyn Authorizer> = Arc::new(MastersOnly);
/// let chain = Chain::built_in(&authorizer).with(Arc::new(CostCenter));
/// assert!(chain.names().any(|name| name == "CostCenter"));
/// ```
pub trait Plugin: Send + Sync {
    /// The name of the plugin, in the chain and in metrics.
    fn name(&self) -> &str;

    /// The writes that it may change. Called once.
    fn mutates(&self) -> Vec<Rule> {
        Vec::new()
    }

    /// The writes that it validates, after all mutation. Called once.
    fn validates(&self) -> Vec<Rule> {
        Vec::new()
    }

    /// Changes the object or rejects the write. The object has its defaults; the plugin must set defaults in what it
    /// adds.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = (attributes, object, warnings);
        nothing_to_say()
    }

    /// Like [`mutate`](Self::mutate), for plugins that run again if later plugins change the object.
    fn mutate_in<'a>(
        &'a self,
        pass: &'a Pass,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = pass;
        self.mutate(attributes, object, warnings)
    }

    /// Rejects writes. For a deletion, `object` is the one to be deleted.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = (attributes, object, warnings);
        nothing_to_say()
    }
}

/// The result of a plugin that accepts a write unchanged.
pub fn nothing_to_say<'a>() -> BoxFuture<'a, Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// Selects the writes that a plugin handles. In each field, `*` matches everything.
#[derive(Clone, Debug)]
pub struct Rule {
    group: Cow<'static, str>,
    resource: Cow<'static, str>,
    subresource: Cow<'static, str>,
    operations: Vec<Operation>,
}

const ANYTHING: &str = "*";

impl Rule {
    /// Writes of the objects of a resource, but not of their subresources.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        resource: impl Into<Cow<'static, str>>,
        operations: &[Operation],
    ) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
            subresource: Cow::Borrowed(""),
            operations: operations.to_vec(),
        }
    }

    /// Writes of the objects of all resources, but not of their subresources.
    pub fn any(operations: &[Operation]) -> Self {
        Self::new(ANYTHING, ANYTHING, operations)
    }

    /// Restricts the rule to a subresource, `*` for all including none.
    #[must_use]
    pub fn of_subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// The resource of the rule, unless it matches all.
    pub(super) fn resource(&self) -> Option<&str> {
        Some(&*self.resource).filter(|resource| *resource != ANYTHING)
    }

    pub(super) fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let declaration = attributes.write.kind.declaration();
        let fits = |wanted: &str, found: &str| wanted == ANYTHING || wanted == found;
        self.operations.contains(&attributes.operation)
            && fits(&self.subresource, attributes.write.subresource)
            && fits(&self.resource, &declaration.plural)
            && fits(&self.group, &declaration.group)
    }
}

/// The error that rejects a write with 403 and a message.
pub fn forbidden(attributes: &Attributes<'_>, object: &Value, message: impl Into<String>) -> Error {
    let subject = Subject::of(attributes.write.kind.declaration(), name_of(attributes, object));
    Error::Forbidden { subject: Box::new(subject), message: message.into() }
}

/// The name of the object, or its `generateName` if the name has not been generated yet.
pub(super) fn name_of<'a>(attributes: &'a Attributes<'_>, object: &'a Value) -> &'a str {
    let meta = Meta::of(object);
    [attributes.name, meta.name(), meta.generate_name()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or("Unknown")
}
