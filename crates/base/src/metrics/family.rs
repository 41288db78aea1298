//! What is counted under one name, told apart by labels.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::text::Text;
use super::{Metric, Samples, Told};

/// The most series of one family. Labels of controllers have a handful of values each; those that name
/// objects are the only ones that could fill the memory. What is beyond is counted by nobody and not told.
pub const MAX_SERIES: usize = 4096;

/// Series of one name with `N` labels. Clones are the same family.
///
/// Finding a series is a search under a lock that only new series write; who counts often keeps the series.
pub struct Family<M: Metric, const N: usize> {
    shared: Arc<Shared<M, N>>,
}

/// The values of its labels, and what is counted.
type Series<M, const N: usize> = ([Box<str>; N], Arc<M>);

struct Shared<M: Metric, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    shape: M::Shape,
    /// By the values of their labels, rising.
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

    /// The series with these values, in the order of the labels.
    pub fn with(&self, values: [&str; N]) -> Arc<M> {
        let known = self.shared.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Ok(index) = find(&known, values) {
            return Arc::clone(&known[index].1);
        }
        drop(known);
        let mut known = self.shared.series.write().unwrap_or_else(PoisonError::into_inner);
        match find(&known, values) {
            Ok(index) => Arc::clone(&known[index].1),
            Err(index) => {
                let new = Arc::new(M::new(&self.shared.shape));
                if known.len() < MAX_SERIES {
                    known.insert(index, (values.map(Into::into), Arc::clone(&new)));
                }
                new
            }
        }
    }

    /// Tells no more of the series with these values.
    pub fn forget(&self, values: [&str; N]) {
        let mut known = self.shared.series.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(index) = find(&known, values) {
            known.remove(index);
        }
    }

    /// The same family, if that is what somebody declared before.
    pub(super) fn known(told: &Arc<dyn Told>, labels: [&'static str; N], shape: &M::Shape) -> Option<Self> {
        let shared = Arc::clone(told).as_any().downcast::<Shared<M, N>>().ok()?;
        (shared.labels == labels && shared.shape == *shape).then_some(Self { shared })
    }

    pub(super) fn told(&self) -> Arc<dyn Told> {
        Arc::clone(&self.shared) as Arc<dyn Told>
    }
}

/// Where the series with these values is, or should be.
fn find<M, const N: usize>(known: &[Series<M, N>], values: [&str; N]) -> Result<usize, usize> {
    known.binary_search_by(|(candidate, _)| -> Ordering { candidate.iter().map(|text| &**text).cmp(values) })
}

impl<M: Metric, const N: usize> Told for Shared<M, N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self, text: &mut Text) {
        text.family(self.name, M::TYPE.as_str(), self.help);
    }

    fn tell(&self, samples: &mut Samples<'_>) {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        for (values, series) in known.iter() {
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
