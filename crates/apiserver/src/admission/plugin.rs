//! What a plugin is: a name, the writes that concern it, and what it has to say.

use std::borrow::Cow;

use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::{Error, Result, Subject};
use serde_json::Value;

use super::pass::Pass;

/// Has a say in the writes that concern it.
///
/// A plugin may change what is to be written, in [`Plugin::mutate`], or refuse it, in either
/// method. All mutation comes before all validation, so whoever validates sees what will be
/// stored. Both are asked again when another writer was faster, so they must not count on
/// being asked once.
///
/// The plugins of an embedder go into the chain by [`Chain::with`](super::Chain::with):
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
    /// How people call it.
    fn name(&self) -> &str;

    /// Which writes it may change. Asked once.
    fn mutates(&self) -> Vec<Rule> {
        Vec::new()
    }

    /// Which writes it looks at once nothing changes any more. Asked once.
    fn validates(&self) -> Vec<Rule> {
        Vec::new()
    }

    /// Changes what is to be written, or refuses it. Objects have their defaults; what is
    /// added here has to bring its own.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = (attributes, object, warnings);
        nothing_to_say()
    }

    /// The same, for those who want to be asked again if others change the object after them.
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

    /// Refuses what may not be written. For a deletion, the object is the one that goes.
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

/// The answer of a plugin that lets a write pass as it is.
pub fn nothing_to_say<'a>() -> BoxFuture<'a, Result<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// Writes that concern a plugin. In each place, `*` stands for anything.
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

    /// Writes of a subresource instead.
    #[must_use]
    pub fn of_subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// The one resource this is about, if it is one.
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

/// The refusal of a write, with its reason.
pub fn forbidden(attributes: &Attributes<'_>, object: &Value, message: impl Into<String>) -> Error {
    let subject = Subject::of(attributes.write.kind.declaration(), name_of(attributes, object));
    Error::Forbidden { subject: Box::new(subject), message: message.into() }
}

/// The name of an object as far as it is known: it may not have been generated yet.
pub(super) fn name_of<'a>(attributes: &'a Attributes<'_>, object: &'a Value) -> &'a str {
    let meta = Meta::of(object);
    [attributes.name, meta.name(), meta.generate_name()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or("Unknown")
}
