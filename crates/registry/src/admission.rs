//! Admission: the interface through which admission plugins take part in writes.
//!
//! The life cycle calls it inside the read–change–write loop, so admission sees the state that is overwritten, and is
//! called again after a conflict with a concurrent write. Mutating admission runs after defaults and before the
//! kind's own preparation; validating admission runs after the kind's own validation.

use std::pin::Pin;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::condition::Conditions;
use crate::error::Result;
use crate::kind::Kind;
use crate::lifecycle::Write;

/// A boxed future, for the methods of [`Admission`].
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A client connects to an object, such as with `exec`.
    Connect,
}

/// Attributes of a write for admission.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// The cluster, for reads of other objects.
    pub cluster: &'a Cluster,
    /// Kind, namespace, subresource, user, and whether it is a dry run.
    pub write: &'a Write<'a>,
    /// The operation.
    pub operation: Operation,
    /// The name of the object.
    pub name: &'a str,
    /// The existing object.
    pub old: Option<&'a Value>,
    /// Conditions of the transaction on other objects, see [`Attributes::require`].
    pub conditions: &'a Conditions,
}

impl Attributes<'_> {
    /// Adds an annotation to the audit event. The value is computed only if the request is audited.
    pub fn annotate<V: Into<String>>(&self, key: &str, value: impl FnOnce() -> V) {
        if let Some(audit) = self.write.audit {
            audit.add(key, value());
        }
    }

    /// Makes the write depend on another object. `check` is called with the current object (`None`: it does not
    /// exist), and again whenever the object changes before the write is committed. So the write is committed only
    /// together with a state of the object that `check` has accepted.
    ///
    /// # Errors
    /// The error of `check`, or that of the store.
    pub async fn require(
        &self,
        kind: &'static dyn Kind,
        namespace: &str,
        name: &str,
        check: impl Fn(Option<&Value>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.conditions.add(self.cluster, kind, (namespace, name), Box::new(check)).await
    }
}

/// The admission chain, which the API server provides.
pub trait Admission: Send + Sync {
    /// Mutates or rejects an object before it is written.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Rejects a write. For a deletion the object is the one that is deleted.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>>;
}

impl Cluster {
    /// Runs mutating and validating admission for an object that is not stored, such as a Binding.
    ///
    /// # Errors
    /// If admission rejects it.
    pub async fn admit(
        &self,
        write: &Write<'_>,
        operation: Operation,
        name: &str,
        object: &mut Value,
    ) -> Result<Vec<String>> {
        let (mut warnings, conditions) = (Vec::new(), Conditions::default());
        let attributes =
            Attributes { cluster: self, write, operation, name, old: None, conditions: &conditions };
        self.mutate(&attributes, object, &mut warnings).await?;
        self.validate(&attributes, object, &mut warnings).await?;
        Ok(warnings)
    }

    /// Runs mutating admission for an object.
    ///
    /// # Errors
    /// If admission rejects it.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Some(admission) = self.admission() else { return Ok(()) };
        admission.mutate(attributes, object, warnings).await
    }

    /// Runs validating admission for an object, which does not change any more.
    ///
    /// # Errors
    /// If admission rejects it.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Some(admission) = self.admission() else { return Ok(()) };
        admission.validate(attributes, object, warnings).await
    }
}
