//! Who else has a say in writes: the seam through which admission is handed in from above.
//!
//! It is asked inside the read–change–write loop, so that it sees the very state that is
//! written over, and again whenever another writer was faster. Mutation comes after defaults
//! and before the kind's own preparation; validation after the kind's own.

use std::pin::Pin;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::condition::Conditions;
use crate::error::Result;
use crate::kind::Kind;
use crate::lifecycle::Write;

/// An answer that may have to wait for others.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Something comes into being.
    Create,
    /// Something changes.
    Update,
    /// Something goes.
    Delete,
    /// Somebody wants to talk to it.
    Connect,
}

/// What a write is, for those who have a say in it.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// The cluster, for looking at other objects.
    pub cluster: &'a Cluster,
    /// The kind, the namespace, the part, who asks, whether it is a dry run.
    pub write: &'a Write<'a>,
    /// What is being done.
    pub operation: Operation,
    /// The name of the object.
    pub name: &'a str,
    /// What is there now.
    pub old: Option<&'a Value>,
    /// Conditions that the transaction of the write has to meet, see [`Attributes::require`].
    pub conditions: &'a Conditions,
}

impl Attributes<'_> {
    /// Notes something for the audit log. What takes work to find out is made only where somebody will
    /// read it.
    pub fn annotate<V: Into<String>>(&self, key: &str, value: impl FnOnce() -> V) {
        if let Some(audit) = self.write.audit {
            audit.add(key, value());
        }
    }

    /// Makes the write depend on another object. `check` judges the object as it is now (`None`: it does not
    /// exist), and again whenever the object changes before the write is committed. So the write is committed
    /// only together with a state of the object that `check` has accepted.
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

/// Has a say in writes.
pub trait Admission: Send + Sync {
    /// Changes what is to be written, or refuses it.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Refuses what may not be written. For a deletion the object is the one that goes.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>>;
}

impl Cluster {
    /// Lets those who have a say change something that is not an object of the store, such as a
    /// Binding, or refuse it.
    ///
    /// # Errors
    /// If somebody refuses.
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

    /// Lets those who have a say change what is to be written, or refuse it.
    ///
    /// # Errors
    /// If somebody refuses.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let Some(admission) = self.admission() else { return Ok(()) };
        admission.mutate(attributes, object, warnings).await
    }

    /// Lets those who have a say refuse what is to be written, once nothing changes any more.
    ///
    /// # Errors
    /// If somebody refuses.
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
