//! Summaries: quantiles of the most recent observations.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::number::Float;
use super::text::{Number, Text};
use super::{Metric, Type};

/// The number of most recent observations that quantiles are computed from, so that they show
/// current behaviour. 4 KiB per series.
const VALUES: usize = 1024;

/// The quantiles that are reported, the same as kube-apiserver's.
const QUANTILES: [(&str, f64); 3] = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)];

/// Quantiles of the most recent observations, with count and sum of all. Observing takes no lock.
#[derive(Debug)]
pub struct Summary {
    /// Ring buffer of observations in single precision.
    values: Box<[AtomicU32]>,
    count: AtomicU64,
    sum: Float,
}

impl Summary {
    /// Adds a value.
    #[expect(clippy::cast_possible_truncation, reason = "quantiles need no double precision")]
    pub fn observe(&self, value: f64) {
        let slot = self.count.fetch_add(1, Ordering::Relaxed) % VALUES as u64;
        self.values[slot as usize].store((value as f32).to_bits(), Ordering::Relaxed);
        self.sum.add(value);
    }

    /// Adds a duration in seconds.
    pub fn observe_duration(&self, took: Duration) {
        self.observe(took.as_secs_f64());
    }

    /// Returns the most recent observations, ascending.
    fn sorted(&self, count: u64) -> Vec<f64> {
        let held = usize::try_from(count).unwrap_or(VALUES).min(VALUES);
        let value = |bits: &AtomicU32| f64::from(f32::from_bits(bits.load(Ordering::Relaxed)));
        let mut values: Vec<f64> = self.values[..held].iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

impl Metric for Summary {
    type Shape = ();
    const TYPE: Type = Type::Summary;

    fn new(_shape: &()) -> Self {
        let values = (0..VALUES).map(|_| AtomicU32::new(0)).collect();
        Self { values, count: AtomicU64::new(0), sum: Float::default() }
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        let count = self.count.load(Ordering::Relaxed);
        let values = self.sorted(count);
        for (label, quantile) in QUANTILES {
            let last = values.len().saturating_sub(1);
            let index = (quantile * last as f64).round() as usize;
            let value = values.get(index).copied().unwrap_or(f64::NAN);
            let labels: Vec<_> = labels.iter().copied().chain([("quantile", label)]).collect();
            text.sample(name, &labels, Number(value));
        }
        text.sample(&format!("{name}_sum"), labels, Number(self.sum.get()));
        text.sample(&format!("{name}_count"), labels, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposition(summary: &Summary) -> String {
        let mut text = Text::default();
        summary.write("s", &[("a", "b")], &mut text);
        text.into_string()
    }

    #[test]
    fn quantiles_are_computed_from_most_recent_values() {
        let summary = Summary::new(&());
        (0..VALUES).for_each(|_| summary.observe(1000.0));
        (0..=100).for_each(|value| summary.observe(f64::from(value)));
        (101..VALUES).for_each(|_| summary.observe(2.0));
        let exposition = exposition(&summary);
        for line in [
            "s{a=\"b\",quantile=\"0.5\"} 2\n",
            "s{a=\"b\",quantile=\"0.99\"} 90\n",
            "s_count{a=\"b\"} 2048\n",
        ] {
            assert!(exposition.contains(line), "{line}{exposition}");
        }
    }

    #[test]
    fn quantile_of_empty_summary_is_nan() {
        assert!(exposition(&Summary::new(&())).contains("s{a=\"b\",quantile=\"0.9\"} NaN\n"));
    }
}
