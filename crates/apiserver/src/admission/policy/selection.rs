//! Which policies are to be asked about a request, through which bindings and with which parameters.

use std::sync::Arc;

use coracle_registry::{Cluster, Kind, ParseCache, Result};
use serde_json::Value;

use super::compiled::{Binding, Policy};
use super::params;
use super::request::{PolicyRequest, Way};
use super::{cache, is_exempt};

/// Policies of one kind and their bindings, compiled when they are first met.
pub(super) struct Policies<P> {
    policies: Known<P>,
    bindings: Known<Binding>,
}

/// Objects of one kind, and what is made of them.
struct Known<T> {
    kind: &'static dyn Kind,
    kept: ParseCache<T>,
    make: fn(&Value) -> T,
}

impl<T> Known<T> {
    fn new(kind: &'static dyn Kind, make: fn(&Value) -> T) -> Self {
        Self { kind, kept: cache(), make }
    }

    async fn all(&self, cluster: &Cluster) -> Result<Vec<Arc<T>>> {
        cluster.derive_all(self.kind, &self.kept, self.make).await
    }
}

/// A policy that is to be asked, and with what.
pub(super) struct Invocation<P> {
    pub(super) policy: Arc<P>,
    pub(super) binding: Arc<Binding>,
    pub(super) params: Option<Arc<Value>>,
    /// How the policy knows the object.
    pub(super) way: Way,
}

/// What is found for a policy, in the order in which it is found.
pub(super) enum Selection<P> {
    /// It is to be asked.
    Ask(Invocation<P>),
    /// It, or one of its bindings, cannot be used.
    Misconfigured { policy: Arc<P>, binding: Option<Arc<Binding>>, error: String },
}

impl<P: AsRef<Policy>> Policies<P> {
    pub(super) fn new(
        kind: &'static dyn Kind,
        binding_kind: &'static dyn Kind,
        compile: fn(&Value) -> P,
    ) -> Self {
        Self { policies: Known::new(kind, compile), bindings: Known::new(binding_kind, Binding::read) }
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

/// One policy through all of its bindings.
///
/// # Errors
/// What is wrong with the policy.
async fn select_bound<P: AsRef<Policy>>(
    policy: &Arc<P>,
    bindings: &[&Arc<Binding>],
    request: &PolicyRequest<'_>,
    found: &mut Vec<Selection<P>>,
) -> Result<(), String> {
    let said = policy.as_ref().as_ref();
    let Some(seen) = said.constraints.matches(request).await? else { return Ok(()) };
    let kind = params::resolve(said.params.as_ref(), request).await?;
    for binding in bindings {
        match binding.params(kind.as_ref(), request).await {
            Ok(all) => found.extend(all.into_iter().map(|params| {
                Selection::Ask(Invocation {
                    policy: policy.clone(),
                    binding: Arc::clone(binding),
                    params,
                    way: seen.way(),
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
