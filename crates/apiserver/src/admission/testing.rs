//! An in-memory cluster for tests of plugins.

use std::sync::Arc;

use coracle_meta::gvk::split_api_version;
use coracle_registry::admission::{Admission, Attributes, Operation};
use coracle_registry::kinds::core::service_account::ServiceAccount;
use coracle_registry::kinds::storage::storage_class::StorageClass;
use coracle_registry::lifecycle::{Change, DeleteOptions, Write};
use coracle_registry::{
    AuditAnnotations, Cluster, Conditions, Identity, Kind, Registry, Scope, ServerInfo, view,
};
use serde_json::Value;

use super::CERTIFICATES;
use super::chain::Chain;
use super::plugin::Plugin;
use crate::authorization::{
    self, Authorizer, Decision, MastersOnly, PendingPermissions, Permissions, ResourceTarget, Rules, Target,
    ready,
};
use crate::status::Refusal;

/// The namespace of all test objects.
pub(super) const NAMESPACE: &str = "default";

/// An in-memory cluster with the initial namespaces.
pub(super) struct Bench {
    pub(super) cluster: Cluster,
    /// The user that sends the writes.
    pub(super) requester: Identity,
    /// The namespace of admitted writes.
    pub(super) namespace: &'static str,
}

/// A chain of one plugin.
pub(super) fn only(plugin: impl Plugin + 'static) -> Chain {
    Chain::empty().with(Arc::new(plugin))
}

impl Bench {
    pub(super) async fn new() -> Self {
        let registry = Registry::in_memory();
        registry.bootstrap(&ServerInfo::default()).await.unwrap();
        let cluster = registry.cluster("default").unwrap();
        let bench = Self { cluster, requester: Identity::server(), namespace: NAMESPACE };
        // Tests create the accounts and classes that they need.
        bench.delete(&ServiceAccount, "default").await;
        bench.delete(&StorageClass, "standard").await;
        bench
    }

    /// Stores an object without admission.
    pub(super) async fn create(&self, kind: &dyn Kind, object: Value) {
        let api_version = kind.declaration().storage_api_version();
        self.cluster.create(&write(kind, &api_version, ""), object).await.unwrap();
    }

    /// Updates an object without admission.
    pub(super) async fn update(&self, kind: &dyn Kind, name: &str, part: &str, change: fn(&mut Value)) {
        let api_version = kind.declaration().storage_api_version();
        let patch = move |mut object: Value| {
            change(&mut object);
            Ok(object)
        };
        self.cluster.update(&write(kind, &api_version, part), name, &Change::Patch(&patch)).await.unwrap();
    }

    /// Like [`update`](Self::update), with a closure that captures variables.
    pub(super) async fn change(
        &self,
        kind: &dyn Kind,
        name: &str,
        change: &(dyn Fn(Value) -> coracle_registry::Result<Value> + Send + Sync),
    ) {
        let api_version = kind.declaration().storage_api_version();
        self.cluster.update(&write(kind, &api_version, ""), name, &Change::Patch(change)).await.unwrap();
    }

    /// Deletes an object without admission.
    pub(super) async fn delete(&self, kind: &dyn Kind, name: &str) {
        let api_version = kind.declaration().storage_api_version();
        let options = DeleteOptions::default();
        self.cluster.delete(&write(kind, &api_version, ""), name, &options).await.unwrap();
    }

    /// Returns a stored object.
    pub(super) async fn get(&self, kind: &dyn Kind, name: &str) -> Value {
        (*self.cluster.find(kind, namespace(kind), name).await.unwrap().unwrap()).clone()
    }

    /// Returns the object after admission, or the error message.
    pub(super) async fn admit(
        &self,
        chain: &Chain,
        kind: &dyn Kind,
        operation: Operation,
        object: Value,
    ) -> Result<Value, String> {
        self.ask(chain, kind, "", operation, None, object).await
    }

    /// Like [`admit`](Self::admit), for a new object with its defaults.
    pub(super) async fn admit_new(
        &self,
        plugin: impl Plugin + 'static,
        kind: &dyn Kind,
        mut object: Value,
    ) -> Result<Value, String> {
        kind.set_defaults(&mut object);
        self.ask(&only(plugin), kind, "", Operation::Create, None, object).await
    }

    /// Like [`admit`](Self::admit), for an update.
    pub(super) async fn admit_update(
        &self,
        plugin: impl Plugin + 'static,
        kind: &dyn Kind,
        part: &str,
        old: &Value,
        new: Value,
    ) -> Result<Value, String> {
        self.ask(&only(plugin), kind, part, Operation::Update, Some(old), new).await
    }

    /// Like [`admit`](Self::admit), for a POST to a subresource.
    pub(super) async fn admit_part(
        &self,
        chain: &Chain,
        kind: &dyn Kind,
        part: &str,
        object: Value,
    ) -> Result<Value, String> {
        self.ask(chain, kind, part, Operation::Create, None, object).await
    }

    /// Returns the warnings, or the error message.
    pub(super) async fn warnings(
        &self,
        chain: &Chain,
        kind: &dyn Kind,
        operation: Operation,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<Vec<String>, String> {
        let api_version = kind.declaration().storage_api_version();
        let write = write(kind, &api_version, "");
        let name = view::name(object);
        let (cluster, conditions) = (&self.cluster, &Conditions::default());
        let attributes = Attributes { cluster, write: &write, operation, name, old, conditions };
        let mut warnings = Vec::new();
        match chain.validate(&attributes, object, &mut warnings).await {
            Ok(()) => Ok(warnings),
            Err(error) => Err(Refusal::from(error).status().message.clone()),
        }
    }

    /// Returns the audit annotations of a new object, whether it is admitted or not.
    pub(super) async fn noted(&self, chain: &Chain, kind: &dyn Kind, mut object: Value) -> Vec<String> {
        kind.set_defaults(&mut object);
        let api_version = kind.declaration().storage_api_version();
        let audit = AuditAnnotations::default();
        let write = Write { audit: Some(&audit), ..write(kind, &api_version, "") };
        let name = view::name(&object).to_owned();
        let operation = Operation::Create;
        let (cluster, conditions) = (&self.cluster, &Conditions::default());
        let attributes = Attributes { cluster, write: &write, operation, name: &name, old: None, conditions };
        // Other tests check the outcome.
        let _ = chain.validate(&attributes, &object, &mut Vec::new()).await;
        audit.all().into_iter().map(|(key, value)| format!("{key}: {value}")).collect()
    }

    /// Runs the chain for any write.
    pub(super) async fn ask(
        &self,
        chain: &Chain,
        kind: &dyn Kind,
        part: &str,
        operation: Operation,
        old: Option<&Value>,
        mut object: Value,
    ) -> Result<Value, String> {
        let api_version = kind.declaration().storage_api_version();
        let namespace = if kind.declaration().scope == Scope::Namespaced { self.namespace } else { "" };
        let write = Write { requester: &self.requester, namespace, ..write(kind, &api_version, part) };
        let name = view::name(&object).to_owned();
        let (cluster, conditions) = (&self.cluster, &Conditions::default());
        let attributes = Attributes { cluster, write: &write, operation, name: &name, old, conditions };
        let mut warnings = Vec::new();
        let outcome = async {
            chain.mutate(&attributes, &mut object, &mut warnings).await?;
            chain.validate(&attributes, &object, &mut warnings).await
        };
        match outcome.await {
            Ok(()) => Ok(object),
            Err(error) => Err(Refusal::from(error).status().message.clone()),
        }
    }
}

/// An authorizer that allows everything to `system:masters` and nothing to others.
pub(super) fn masters_only() -> Arc<dyn Authorizer> {
    Arc::new(MastersOnly)
}

/// An authorizer that allows every user one verb on one signer of certificates, and nothing else.
pub(super) fn permits(verb: &'static str, signer: &'static str) -> Arc<dyn Authorizer> {
    Arc::new(Permits { verb, signer })
}

#[derive(Clone, Copy)]
pub(super) struct Permits {
    pub(super) verb: &'static str,
    pub(super) signer: &'static str,
}

impl Authorizer for Permits {
    fn permissions<'a>(&'a self, _cluster: &'a Cluster) -> PendingPermissions<'a> {
        ready(Arc::new(*self))
    }
}

impl Permissions for Permits {
    fn authorize(&self, _identity: &Identity, attributes: &authorization::Attributes<'_>) -> Decision {
        let target = ResourceTarget {
            group: CERTIFICATES,
            version: "*",
            resource: "signers",
            name: self.signer,
            ..ResourceTarget::default()
        };
        let permitted = authorization::Attributes { verb: self.verb, target: Target::Resource(target) };
        Decision { allowed: *attributes == permitted, ..Decision::default() }
    }

    fn rules(&self, _identity: &Identity, _namespace: &str) -> Rules {
        Rules::default()
    }
}

fn namespace(kind: &dyn Kind) -> &'static str {
    if kind.declaration().scope == Scope::Namespaced { NAMESPACE } else { "" }
}

/// A write by the server itself.
pub(super) fn write<'a>(kind: &'a dyn Kind, api_version: &'a str, subresource: &'a str) -> Write<'a> {
    let (namespace, requester) = (namespace(kind), const { &Identity::server() });
    let served_version = split_api_version(api_version).1;
    Write {
        kind,
        api_version,
        served_version,
        namespace,
        subresource,
        manager: "test",
        requester,
        dry_run: false,
        audit: None,
        sent: None,
    }
}
