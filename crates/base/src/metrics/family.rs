//! Metric families: the series of one metric name, distinguished by label values.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::text::Text;
use super::{Collector, Metric, Samples};

/// The maximum number of series in a family. Labels of controllers have a handful of values each;
/// only labels that name objects could exhaust memory. Observations of series beyond the limit are
/// dropped.
pub const MAX_SERIES: usize = 4096;

/// The series of one metric name with `N` labels. Clones share the series.
///
/// Looking up a series is a binary search under a read lock (only new series take the write lock);
/// hot paths keep the series.
pub struct Family<M: Metric, const N: usize> {
    shared: Arc<Shared<M, N>>,
}

/// Label values, and the metric.
type Series<M, const N: usize> = ([Box<str>; N], Arc<M>);

struct Shared<M: Metric, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    shape: M::Shape,
    /// Sorted by label values.
    series: RwLock<Vec<Series<M, N>>>,
}

impl<M: Metric, const N: usize> Family<M, N> {
    pub(super) fn new(
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        shape: M::Shape,
    ) -> Self {
        let family =
            Self { shared: Arc::new(Shared { name, help, labels, shape, series: RwLock::default() }) };
        if N == 0 {
            // Its only series needs no event to be known, so it is there from the start, as in Prometheus' libraries.
            family.with([""; N]);
        }
        family
    }

    /// Returns the series with these label values, given in the order of the labels; creates it if
    /// it is new.
    pub fn with(&self, values: [&str; N]) -> Arc<M> {
        let series = self.shared.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Ok(index) = find(&series, values) {
            return Arc::clone(&series[index].1);
        }
        drop(series);
        let mut series = self.shared.series.write().unwrap_or_else(PoisonError::into_inner);
        match find(&series, values) {
            Ok(index) => Arc::clone(&series[index].1),
            Err(index) => {
                let new = Arc::new(M::new(&self.shared.shape));
                if series.len() < MAX_SERIES {
                    series.insert(index, (values.map(Into::into), Arc::clone(&new)));
                }
                new
            }
        }
    }

    /// Removes the series with these label values.
    pub fn forget(&self, values: [&str; N]) {
        let mut series = self.shared.series.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(index) = find(&series, values) {
            series.remove(index);
        }
    }

    /// Returns the family registered as `collector` if it has this type, these labels and this
    /// shape.
    pub(super) fn downcast(
        collector: &Arc<dyn Collector>,
        labels: [&'static str; N],
        shape: &M::Shape,
    ) -> Option<Self> {
        let shared = Arc::clone(collector).as_any().downcast::<Shared<M, N>>().ok()?;
        (shared.labels == labels && shared.shape == *shape).then_some(Self { shared })
    }

    pub(super) fn collector(&self) -> Arc<dyn Collector> {
        Arc::clone(&self.shared) as Arc<dyn Collector>
    }
}

/// Returns the index of the series with these values, or the index to insert it at.
fn find<M, const N: usize>(series: &[Series<M, N>], values: [&str; N]) -> Result<usize, usize> {
    series.binary_search_by(|(candidate, _)| -> Ordering { candidate.iter().map(|text| &**text).cmp(values) })
}

impl<M: Metric, const N: usize> Collector for Shared<M, N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write_header(&self, text: &mut Text) {
        text.family(self.name, M::TYPE.as_str(), self.help);
    }

    fn collect(&self, samples: &mut Samples<'_>) {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        for (values, series) in series.iter() {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().map(|value| &**value)).collect();
            samples.add(&labels, &**series);
        }
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<M: Metric, const N: usize> Clone for Family<M, N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M: Metric, const N: usize> fmt::Debug for Family<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
