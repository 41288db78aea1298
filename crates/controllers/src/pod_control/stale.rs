//! How often a controller gave a key back because its informer was behind.

use coracle_base::Metrics;
use coracle_base::metrics::Counters;
use coracle_runtime::StaleCache;

/// Keys that were given back because what is known lacks what was written for them.
#[derive(Clone, Debug)]
pub(crate) struct StaleSyncs(Counters<2>);

impl StaleSyncs {
    /// Counts under the name that upstream's controller has for it.
    pub(crate) fn new(metrics: &Metrics, name: &'static str) -> Self {
        Self(metrics.counters(name, "Looks put off because an informer was behind.", ["group", "resource"]))
    }

    /// Counts it if the informer of this resource was behind.
    pub(crate) fn check(
        &self,
        group: &str,
        resource: &str,
        seen: Result<(), StaleCache>,
    ) -> Result<(), StaleCache> {
        seen.inspect_err(|StaleCache| self.0.with([group, resource]).inc())
    }
}
