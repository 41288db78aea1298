//! Selects the policies that apply to a request, with their bindings and parameters.

use std::sync::Arc;

use coracle_registry::{Cluster, Kind, ParseCache, Result};
use serde_json::Value;

use super::compiled::{Binding, Policy};
use super::params;
use super::request::{GroupVersion, PolicyRequest};
use super::{cache, is_exempt};

/// The policies of one kind and their bindings, compiled on first use.
pub(super) struct Policies<P> {
    policies: CompiledObjects<P>,
    bindings: CompiledObjects<Binding>,
}

/// Objects of one kind, with a cache of their compiled form.
struct CompiledObjects<T> {
    kind: &'static dyn Kind,
    cache: ParseCache<T>,
    compile: fn(&Value) -> T,
}

impl<T> CompiledObjects<T> {
    fn new(kind: &'static dyn Kind, compile: fn(&Value) -> T) -> Self {
        Self { kind, cache: cache(), compile }
    }

    async fn all(&self, cluster: &Cluster) -> Result<Vec<Arc<T>>> {
        cluster.derive_all(self.kind, &self.cache, self.compile).await
    }
}

/// A policy to evaluate, with its binding and parameters.
pub(super) struct Invocation<P> {
    pub(super) policy: Arc<P>,
    pub(super) binding: Arc<Binding>,
    pub(super) params: Option<Arc<Value>>,
    /// The group and version in which the policy matches the request.
    pub(super) group_version: GroupVersion,
}

/// A result of the selection, in the order of policies and bindings.
pub(super) enum Selection<P> {
    /// The policy must be evaluated.
    Ask(Invocation<P>),
    /// The policy, or one of its bindings, is invalid.
    Misconfigured { policy: Arc<P>, binding: Option<Arc<Binding>>, error: String },
}

impl<P: AsRef<Policy>> Policies<P> {
    pub(super) fn new(
        kind: &'static dyn Kind,
        binding_kind: &'static dyn Kind,
        compile: fn(&Value) -> P,
    ) -> Self {
        Self {
            policies: CompiledObjects::new(kind, compile),
            bindings: CompiledObjects::new(binding_kind, Binding::read),
        }
    }

    pub(super) async fn select(&self, request: &PolicyRequest<'_>) -> Result<Vec<Selection<P>>> {
        let cluster = request.attributes.cluster;
        let bindings = self.bindings.all(cluster).await?;
        let mut found = Vec::new();
        if bindings.is_empty() || is_exempt(request) {
            return Ok(found);
        }
        for policy in self.policies.all(cluster).await? {
            let name = &policy.as_ref().as_ref().name;
            let bound: Vec<_> = bindings.iter().filter(|binding| binding.policy == *name).collect();
            if bound.is_empty() {
                continue;
            }
            if let Err(error) = select_bound(&policy, &bound, request, &mut found).await {
                found.push(Selection::Misconfigured { policy, binding: None, error });
            }
        }
        Ok(found)
    }
}

/// Selects a policy through each of its bindings.
///
/// # Errors
/// If the policy is invalid.
async fn select_bound<P: AsRef<Policy>>(
    policy: &Arc<P>,
    bindings: &[&Arc<Binding>],
    request: &PolicyRequest<'_>,
    found: &mut Vec<Selection<P>>,
) -> Result<(), String> {
    let said = policy.as_ref().as_ref();
    let Some(representation) = said.constraints.matches(request).await? else { return Ok(()) };
    let kind = params::resolve(said.params.as_ref(), request).await?;
    for binding in bindings {
        match binding.params(kind.as_ref(), request).await {
            Ok(all) => found.extend(all.into_iter().map(|params| {
                Selection::Ask(Invocation {
                    policy: policy.clone(),
                    binding: Arc::clone(binding),
                    params,
                    group_version: representation.group_version(),
                })
            })),
            Err(error) => found.push(Selection::Misconfigured {
                policy: policy.clone(),
                binding: Some(Arc::clone(binding)),
                error,
            }),
        }
    }
    Ok(())
}
