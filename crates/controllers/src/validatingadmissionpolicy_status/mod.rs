//! Type-checks the expressions of each ValidatingAdmissionPolicy against the kinds that it matches, once per change,
//! and writes the warnings to its status.
//!
//! Policies themselves are evaluated without type information, so nothing is rejected here.

mod check;
mod declare;
mod kinds;
#[cfg(test)]
mod tests;

use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{
    Action, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Selection, Written,
};
use http::Request;
use http::header::ACCEPT;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::client::APIGroupDiscoveryList;
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ownership_graph::AGGREGATED_DISCOVERY;
use crate::{Registration, Settings};
use check::DeclaredKind;

/// Field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "validatingadmissionpolicy-status-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let policies = manager.informer::<Policy>(Selection::of::<ValidatingAdmissionPolicy>());
    let reconcile = TypeChecking { client: manager.client().clone(), policies: policies.clone() };
    let controller =
        Controller::new(REGISTRATION.name, reconcile).watches(&policies, |change| Some(change.key.clone()));
    manager.add(controller);
}

/// View of a policy with the fields that determine whether it has been checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Whole")]
struct Policy {
    metadata: Metadata,
    is_checked: bool,
}

/// The wire format.
#[derive(Deserialize)]
struct Whole {
    metadata: WholeMetadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct WholeMetadata {
    #[serde(flatten)]
    metadata: Metadata,
    #[serde(default)]
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
}

impl From<Whole> for Policy {
    fn from(whole: Whole) -> Self {
        let is_checked = whole.metadata.generation <= whole.status.observed_generation;
        Self { metadata: whole.metadata.metadata, is_checked }
    }
}

impl View for Policy {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

struct TypeChecking {
    client: Client,
    policies: Informer<Policy>,
}

impl TypeChecking {
    async fn check(&self, key: &ObjectKey) -> Result<(), kube::Error> {
        let policies = Objects::of::<ValidatingAdmissionPolicy>(&self.client);
        let policy = policies.get::<ValidatingAdmissionPolicy>(key).await?;
        let Some(policy) = policy else { return Ok(()) };
        let spec = policy.spec.clone().unwrap_or_default();
        let warnings = self.warnings(key.cluster(), &spec).await?;
        let mut type_checking = json!({});
        if !warnings.is_empty() {
            type_checking["expressionWarnings"] = json!(warnings);
        }
        let status = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key.name()},
            "status": {"observedGeneration": policy.metadata.generation, "typeChecking": type_checking},
        });
        let params = PatchParams::apply(MANAGER).force();
        match policies.patch_subresource::<Written>(key, "status", &params, &Patch::Apply(status)).await {
            // The policy has been deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    async fn warnings(
        &self,
        cluster: &ClusterId,
        spec: &ValidatingAdmissionPolicySpec,
    ) -> Result<Vec<Value>, kube::Error> {
        let wanted = kinds::named_resources(spec);
        let kinds = match wanted.is_empty() {
            true => Vec::new(),
            false => {
                let core = self.served(cluster, "/api").await?;
                let groups = self.served(cluster, "/apis").await?;
                kinds::resolve(&wanted, &kinds::ServedKinds::new([core, groups]))
            }
        };
        let mut declared_kind = Vec::new();
        for kind in kinds {
            declared_kind.extend(self.declared_kind(cluster, kind).await?);
        }
        let params = match kinds::params(spec) {
            // Parameters of an unknown kind are still parameters.
            Some(kind) => {
                let found = self.declared_kind(cluster, kind.clone()).await?;
                Some(found.unwrap_or(DeclaredKind { kind, decl: None }))
            }
            None => None,
        };
        Ok(check::warnings(spec, &declared_kind, params.as_ref()))
    }

    /// Aggregated discovery of a cluster at this path.
    async fn served(&self, cluster: &ClusterId, path: &str) -> Result<APIGroupDiscoveryList, kube::Error> {
        let request = Request::get(format!("{}{path}", cluster.path())).header(ACCEPT, AGGREGATED_DISCOVERY);
        self.client.request(request.body(Vec::new()).map_err(kube::Error::HttpError)?).await
    }

    /// Declaration of a kind from the server's OpenAPI document, if it has one.
    async fn declared_kind(
        &self,
        cluster: &ClusterId,
        kind: GroupVersionKind,
    ) -> Result<Option<DeclaredKind>, kube::Error> {
        let path = match &*kind.group {
            "" => format!("/openapi/v3/api/{}", kind.version),
            group => format!("/openapi/v3/apis/{group}/{}", kind.version),
        };
        let path = format!("{}{path}", cluster.path());
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let document: Value = match self.client.request(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            answer => answer?,
        };
        let schemas = &document["components"]["schemas"];
        Ok(declare::find(schemas, &kind)
            .map(|name| DeclaredKind { decl: declare::declaration(schemas, name), kind }))
    }
}

impl Reconcile for TypeChecking {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if self.policies.store().get(key).is_some_and(|policy| !policy.is_checked) {
            self.check(key).await?;
        }
        Ok(Action::AwaitChange)
    }
}
