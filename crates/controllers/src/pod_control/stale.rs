//! Counts reconciles that were skipped because of a stale informer.

use coracle_base::Metrics;
use coracle_base::metrics::Counters;
use coracle_runtime::StaleCache;

/// Number of skipped reconciles, by resource.
#[derive(Clone, Debug)]
pub(crate) struct StaleSyncs(Counters<2>);

impl StaleSyncs {
    /// Counts under the name that kube-controller-manager uses for this controller.
    pub(crate) fn new(metrics: &Metrics, name: &'static str) -> Self {
        Self(metrics.counters(
            name,
            "Reconciles skipped because of a stale informer cache.",
            ["group", "resource"],
        ))
    }

    /// Counts the result if the informer of this resource was stale.
    pub(crate) fn check(
        &self,
        group: &str,
        resource: &str,
        seen: Result<(), StaleCache>,
    ) -> Result<(), StaleCache> {
        seen.inspect_err(|StaleCache| self.0.with([group, resource]).inc())
    }
}
