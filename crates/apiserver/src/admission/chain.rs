//! The admission chain: the plugins in their order, and which of them handle a write.

use std::collections::HashMap;
use std::sync::Arc;

use coracle_base::metrics::Metrics;
use coracle_registry::Result;
use coracle_registry::admission::{Admission, Attributes, BoxFuture, Operation};
use serde_json::Value;
use tokio::time::Instant;

use super::certificate_approval::CertificateApproval;
use super::certificate_signing::CertificateSigning;
use super::certificate_subject_restriction::CertificateSubjectRestriction;
use super::create_authorization::CreateAuthorization;
use super::default_ingress_class::DefaultIngressClass;
use super::default_storage_class::DefaultStorageClass;
use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::limit_ranger::LimitRanger;
use super::metrics::{AdmissionMetrics, Step};
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_declared_feature_validator::NodeDeclaredFeatureValidator;
use super::node_restriction::NodeRestriction;
use super::pass::Pass;
use super::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use super::plugin::{Plugin, Rule, nothing_to_say};
use super::pod_resize_validator::PodResizeValidator;
use super::pod_security::PodSecurity;
use super::pod_topology_labels::PodTopologyLabels;
use super::policy::{MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use super::priority::Priority;
use super::rbac_escalation::RbacEscalation;
use super::resource_quota::ResourceQuota;
use super::runtime_class::RuntimeClass;
use super::service_account::ServiceAccount;
use super::service_address::ServiceAddress;
use super::storage_object_in_use_protection::StorageObjectInUseProtection;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::unimplemented_extensions::UnimplementedExtensions;
use crate::authorization::Authorizer;

/// The built-in plugins that are on by default, in kube-apiserver's order (`AllOrderedPlugins` in
/// `pkg/kubeapiserver/options/plugins.go`), and `NodeRestriction`, without which nodes could modify the objects of
/// other nodes. kube-apiserver does the checks of the first two before any plugin runs, and the last is our own.
///
/// Webhooks are not implemented yet. The other default plugins of kube-apiserver are omitted because they would have no
/// effect: `ClusterTrustBundleAttest` is about a kind that is served only with a feature that is off by default, and
/// `PodGroupProtection`, `PodGroupWorkloadExists` and `JobValidation` depend on such features, too.
fn built_in(authorizer: &Arc<dyn Authorizer>, metrics: &Metrics) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(CreateAuthorization::new(authorizer.clone())),
        Arc::new(NamespaceLifecycle),
        Arc::new(LimitRanger),
        Arc::new(ServiceAccount::default()),
        Arc::new(NodeRestriction::new(authorizer.clone())),
        Arc::new(TaintNodesByCondition),
        Arc::new(PodSecurity::new(metrics)),
        Arc::new(Priority),
        Arc::new(DefaultTolerationSeconds),
        Arc::new(DefaultStorageClass),
        Arc::new(StorageObjectInUseProtection),
        Arc::new(PersistentVolumeClaimResize),
        Arc::new(RuntimeClass),
        Arc::new(CertificateApproval::new(authorizer.clone())),
        Arc::new(CertificateSigning::new(authorizer.clone())),
        Arc::new(CertificateSubjectRestriction),
        Arc::new(DefaultIngressClass),
        Arc::new(PodTopologyLabels),
        Arc::new(NodeDeclaredFeatureValidator),
        Arc::new(PodResizeValidator),
        Arc::new(ServiceAddress),
    ]
}

/// The plugins that run after those of an embedder: policies of the cluster's administrators, mutating ones first, then
/// the quota, which is charged after all other plugins have accepted the write. Webhooks will follow the policies of
/// their type. RBAC escalation is checked after the last change to a role. The last plugin only warns about the object
/// that will be stored.
fn built_in_last(authorizer: &Arc<dyn Authorizer>, metrics: &Metrics) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(MutatingAdmissionPolicy::new(authorizer.clone(), metrics)),
        Arc::new(RbacEscalation::new(authorizer.clone())),
        Arc::new(ValidatingAdmissionPolicy::new(authorizer.clone(), metrics)),
        Arc::new(ResourceQuota),
        Arc::new(UnimplementedExtensions),
    ]
}

/// Admission plugins, called one after the other.
///
/// A write that no plugin handles costs one map lookup.
#[derive(Clone)]
pub struct Chain {
    plugins: Vec<Arc<dyn Plugin>>,
    last: Vec<Arc<dyn Plugin>>,
    mutating: Index,
    validating: Index,
    metrics: Option<AdmissionMetrics>,
}

impl Chain {
    /// Creates the chain of the plugins that are on by default. The authorizer decides who may approve and sign
    /// certificates, and answers authorization checks in policy expressions.
    pub fn built_in(authorizer: &Arc<dyn Authorizer>) -> Self {
        Self::with_metrics(authorizer, &Metrics::default())
    }

    /// Like [`Self::built_in`], with the metrics of the plugins in `metrics`.
    pub(crate) fn with_metrics(authorizer: &Arc<dyn Authorizer>, metrics: &Metrics) -> Self {
        let chain = Self::of(built_in(authorizer, metrics), built_in_last(authorizer, metrics));
        Self { metrics: Some(AdmissionMetrics::new(metrics)), ..chain }
    }

    /// Creates a chain without plugins.
    pub fn empty() -> Self {
        Self::of(Vec::new(), Vec::new())
    }

    /// Appends a plugin. It runs after the built-in ones and those added before, but before policies and quotas.
    #[must_use]
    pub fn with(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(plugin);
        Self { metrics: self.metrics, ..Self::of(self.plugins, self.last) }
    }

    /// Runs a plugin and records its duration.
    async fn timed(
        &self,
        plugin: &dyn Plugin,
        step: Step,
        operation: Operation,
        run: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let began = Instant::now();
        let outcome = run.await;
        if let Some(metrics) = &self.metrics {
            metrics.note_plugin(plugin.name(), step, operation, outcome.is_err(), began.elapsed());
        }
        outcome
    }

    fn note_step(&self, step: Step, operation: Operation, outcome: &Result<()>, began: Instant) {
        if let Some(metrics) = &self.metrics {
            metrics.note_step(step, operation, outcome.is_err(), began.elapsed());
        }
    }

    async fn mutate_all(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let mut pass = Pass::default();
        loop {
            for plugin in self.mutating.concerned(attributes) {
                let run = plugin.mutate_in(&pass, attributes, object, warnings);
                self.timed(plugin, Step::Admit, attributes.operation, run).await?;
            }
            match pass.next() {
                Some(again) => pass = again,
                None => return Ok(()),
            }
        }
    }

    async fn validate_all(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        for plugin in self.validating.concerned(attributes) {
            let run = plugin.validate(attributes, object, warnings);
            self.timed(plugin, Step::Validate, attributes.operation, run).await?;
        }
        Ok(())
    }

    /// The names of the plugins in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().chain(&self.last).map(|plugin| plugin.name())
    }

    fn of(plugins: Vec<Arc<dyn Plugin>>, last: Vec<Arc<dyn Plugin>>) -> Self {
        let all = || plugins.iter().chain(&last);
        let mutating = Index::of(all().map(|plugin| (plugin, plugin.mutates())));
        let validating = Index::of(all().map(|plugin| (plugin, plugin.validates())));
        Self { plugins, last, mutating, validating, metrics: None }
    }
}

impl Admission for Chain {
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        if self.mutating.concerned(attributes).next().is_none() {
            return nothing_to_say();
        }
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.mutate_all(attributes, object, warnings).await;
            self.note_step(Step::Admit, attributes.operation, &outcome, began);
            outcome
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        if self.validating.concerned(attributes).next().is_none() {
            return nothing_to_say();
        }
        Box::pin(async move {
            let began = Instant::now();
            let outcome = self.validate_all(attributes, object, warnings).await;
            self.note_step(Step::Validate, attributes.operation, &outcome, began);
            outcome
        })
    }
}

/// A plugin, with those of its rules that can match.
#[derive(Clone)]
struct Candidate {
    plugin: Arc<dyn Plugin>,
    rules: Vec<Rule>,
}

/// Plugins by the resource that they handle. Each list is in the order of the chain.
#[derive(Clone)]
struct Index {
    by_resource: HashMap<String, Vec<Candidate>>,
    /// Plugins for resources that no rule names.
    otherwise: Vec<Candidate>,
}

impl Index {
    fn of<'a>(plugins: impl Iterator<Item = (&'a Arc<dyn Plugin>, Vec<Rule>)>) -> Self {
        let plugins: Vec<_> = plugins.collect();
        let named = plugins.iter().flat_map(|(_, rules)| rules).filter_map(Rule::resource);
        let by_resource =
            named.map(|resource| (resource.to_owned(), candidates(&plugins, Some(resource)))).collect();
        Self { by_resource, otherwise: candidates(&plugins, None) }
    }

    fn concerned<'a>(&'a self, attributes: &'a Attributes<'a>) -> impl Iterator<Item = &'a dyn Plugin> {
        let resource = &*attributes.write.kind.declaration().plural;
        self.by_resource
            .get(resource)
            .unwrap_or(&self.otherwise)
            .iter()
            .filter(|candidate| candidate.rules.iter().any(|rule| rule.matches(attributes)))
            .map(|candidate| &*candidate.plugin)
    }
}

/// The plugins for a resource, or for resources that no rule names.
fn candidates(plugins: &[(&Arc<dyn Plugin>, Vec<Rule>)], resource: Option<&str>) -> Vec<Candidate> {
    let fits = |rule: &&Rule| rule.resource().is_none() || rule.resource() == resource;
    plugins
        .iter()
        .map(|(plugin, rules)| Candidate {
            plugin: Arc::clone(plugin),
            rules: rules.iter().filter(fits).cloned().collect(),
        })
        .filter(|candidate| !candidate.rules.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::config_map::ConfigMap;
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::{Bench, masters_only};
    use super::*;

    #[test]
    fn plugins_are_in_the_order_of_kube_apiserver() {
        let chain = Chain::built_in(&masters_only());
        let names: Vec<&str> = chain.names().collect();
        assert_eq!(
            names,
            [
                "CreateAuthorization",
                "NamespaceLifecycle",
                "LimitRanger",
                "ServiceAccount",
                "NodeRestriction",
                "TaintNodesByCondition",
                "PodSecurity",
                "Priority",
                "DefaultTolerationSeconds",
                "DefaultStorageClass",
                "StorageObjectInUseProtection",
                "PersistentVolumeClaimResize",
                "RuntimeClass",
                "CertificateApproval",
                "CertificateSigning",
                "CertificateSubjectRestriction",
                "DefaultIngressClass",
                "PodTopologyLabels",
                "NodeDeclaredFeatureValidator",
                "PodResizeValidator",
                "ServiceAddress",
                "MutatingAdmissionPolicy",
                "RBACEscalation",
                "ValidatingAdmissionPolicy",
                "ResourceQuota",
                "UnimplementedExtensions",
            ]
        );
    }

    /// Appends its name to each object that it handles.
    struct Marks(&'static str, Vec<Rule>);

    impl Plugin for Marks {
        fn name(&self) -> &str {
            self.0
        }

        fn mutates(&self) -> Vec<Rule> {
            self.1.clone()
        }

        fn mutate<'a>(
            &'a self,
            _attributes: &'a Attributes<'a>,
            object: &'a mut Value,
            _warnings: &'a mut Vec<String>,
        ) -> BoxFuture<'a, Result<()>> {
            let seen = object["seen"].as_str().unwrap_or_default().to_owned();
            object["seen"] = (seen + self.0).into();
            nothing_to_say()
        }
    }

    #[tokio::test]
    async fn matching_plugins_are_called_in_order() {
        let create = [Operation::Create];
        let chain = Chain::empty()
            .with(Arc::new(Marks("a", vec![Rule::any(&create)])))
            .with(Arc::new(Marks("b", vec![Rule::new("", "pods", &create)])))
            .with(Arc::new(Marks("c", vec![Rule::new("other", "pods", &create)])))
            .with(Arc::new(Marks("d", vec![Rule::new("", "pods", &create).of_subresource("binding")])))
            .with(Arc::new(Marks("e", vec![Rule::new("", "*", &create), Rule::new("", "pods", &create)])));
        let bench = Bench::new().await;
        let seen = bench.admit(&chain, &Pod, Operation::Create, json!({})).await;
        assert_eq!(seen.unwrap()["seen"], "abe");
        let seen = bench.admit(&chain, &ConfigMap, Operation::Create, json!({})).await;
        assert_eq!(seen.unwrap()["seen"], "ae");
        let seen = bench.admit(&chain, &Pod, Operation::Delete, json!({})).await;
        assert_eq!(seen.unwrap(), json!({}));
        let seen = bench.admit_part(&chain, &Pod, "binding", json!({})).await;
        assert_eq!(seen.unwrap()["seen"], "d");
    }

    #[tokio::test]
    async fn plugins_of_an_embedder_run_before_quotas() {
        let chain = Chain::built_in(&masters_only()).with(Arc::new(Marks("x", Vec::new())));
        let names: Vec<&str> = chain.names().collect();
        let last = [
            "x",
            "MutatingAdmissionPolicy",
            "RBACEscalation",
            "ValidatingAdmissionPolicy",
            "ResourceQuota",
            "UnimplementedExtensions",
        ];
        assert_eq!(names[names.len() - last.len()..], last);
    }
}
