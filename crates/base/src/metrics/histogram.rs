//! Histograms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::number::Float;
use super::text::{Number, Text};
use super::{Metric, Type};

/// Upper bounds of the buckets of a histogram, ascending. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets(Arc<[f64]>);

/// The default buckets of the Prometheus client library, for durations of milliseconds to seconds.
const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl Buckets {
    /// Creates buckets with these upper bounds, which must be ascending.
    pub fn new(limits: &[f64]) -> Self {
        debug_assert!(limits.is_sorted_by(|a, b| a < b), "limits rise");
        Self(limits.into())
    }

    /// Creates `count` buckets whose bounds grow by `factor`. The bounds are multiplied one after
    /// the other, as the Prometheus client library does, so that they are equal to the last digit.
    pub fn exponential(first: f64, factor: f64, count: usize) -> Self {
        Self(std::iter::successors(Some(first), |limit| Some(limit * factor)).take(count).collect())
    }

    /// Creates `count` buckets whose bounds grow by `width`.
    pub fn linear(first: f64, width: f64, count: usize) -> Self {
        Self(std::iter::successors(Some(first), |limit| Some(limit + width)).take(count).collect())
    }

    /// Returns the upper bounds, ascending.
    pub fn limits(&self) -> &[f64] {
        &self.0
    }

    fn of(&self, value: f64) -> usize {
        self.0.partition_point(|limit| *limit < value)
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new(&DEFAULT)
    }
}

/// A histogram of observed values.
#[derive(Debug)]
pub struct Histogram {
    limits: Buckets,
    /// Observations per bucket, not cumulative; the last counter is for values above all bounds.
    counts: Box<[AtomicU64]>,
    sum: Float,
}

impl Histogram {
    /// Creates a histogram without observations.
    pub fn with_buckets(limits: &Buckets) -> Self {
        let counts = (0..=limits.0.len()).map(|_| AtomicU64::new(0)).collect();
        Self { limits: limits.clone(), counts, sum: Float::default() }
    }

    /// Adds an observation.
    pub fn observe(&self, value: f64) {
        self.counts[self.limits.of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.add(value);
    }

    /// Adds a duration, in seconds.
    pub fn observe_duration(&self, took: Duration) {
        self.observe(took.as_secs_f64());
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns the sum of the observed values.
    pub fn sum(&self) -> f64 {
        self.sum.get()
    }

    /// Writes the sum of several histograms with the same buckets as one histogram.
    pub fn tell_together(histograms: &[&Self], name: &str, labels: &[(&str, &str)], text: &mut Text) {
        let Some(limits) = histograms.first().map(|first| &first.limits) else { return };
        let mut below = 0;
        let bucket = format!("{name}_bucket");
        let upper = limits.0.iter().copied().chain([f64::INFINITY]);
        for (index, limit) in upper.enumerate() {
            below += histograms.iter().map(|one| one.counts[index].load(Ordering::Relaxed)).sum::<u64>();
            let limit = Number(limit).to_string();
            text.sample(&bucket, &[labels, &[("le", &limit)]].concat(), below);
        }
        let sum: f64 = histograms.iter().map(|one| one.sum()).sum();
        text.sample(&format!("{name}_sum"), labels, Number(sum));
        text.sample(&format!("{name}_count"), labels, below);
    }
}

impl Metric for Histogram {
    type Shape = Buckets;

    const TYPE: Type = Type::Histogram;

    fn new(shape: &Buckets) -> Self {
        Self::with_buckets(shape)
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        Self::tell_together(&[self], name, labels, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_include_values_equal_to_their_bound() {
        let histogram = Histogram::with_buckets(&Buckets::new(&[1.0, 2.0]));
        for value in [0.5, 1.0, 1.5, 2.0, 2.5] {
            histogram.observe(value);
        }
        let mut text = Text::default();
        histogram.write("a", &[("b", "c")], &mut text);
        let expected = "a_bucket{b=\"c\",le=\"1\"} 2\na_bucket{b=\"c\",le=\"2\"} 4\na_bucket{b=\"c\",le=\"+Inf\"} 5\n\
            a_sum{b=\"c\"} 7.5\na_count{b=\"c\"} 5\n";
        assert_eq!(text.into_string(), expected);
        assert_eq!(histogram.count(), 5);
    }

    #[test]
    fn histograms_with_same_buckets_are_merged() {
        let buckets = Buckets::new(&[1.0]);
        let (one, other) = (Histogram::with_buckets(&buckets), Histogram::with_buckets(&buckets));
        one.observe(1.0);
        other.observe_duration(Duration::from_millis(1500));
        let mut text = Text::default();
        Histogram::tell_together(&[&one, &other], "a", &[], &mut text);
        assert_eq!(
            text.into_string(),
            "a_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 2.5\na_count 2\n"
        );
    }

    #[test]
    fn exponential_and_linear_buckets_have_expected_bounds() {
        assert_eq!(Buckets::exponential(1.0, 2.0, 4), Buckets::new(&[1.0, 2.0, 4.0, 8.0]));
        assert_eq!(Buckets::linear(5.0, 10.0, 3), Buckets::new(&[5.0, 15.0, 25.0]));
    }
}
