//! Counters and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Number, Text};
use super::{Metric, Type};

/// A counter: a number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the current count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metric for Counter {
    type Shape = ();

    const TYPE: Type = Type::Counter;

    fn new((): &()) -> Self {
        Self::default()
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, self.get());
    }
}

/// A gauge: a number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(Float);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// Adds `more`, which may be negative.
    pub fn add(&self, more: f64) {
        self.0.add(more);
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Subtracts one.
    pub fn dec(&self) {
        self.add(-1.0);
    }

    /// Returns the current value.
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

impl Metric for Gauge {
    type Shape = ();

    const TYPE: Type = Type::Gauge;

    fn new((): &()) -> Self {
        Self::default()
    }

    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, Number(self.get()));
    }
}

/// An atomic `f64`.
#[derive(Debug, Default)]
pub(super) struct Float(AtomicU64);

impl Float {
    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, more: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + more).to_bits());
        // Never fails: the closure always returns `Some`.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauge_can_be_set_increased_and_decreased() {
        let gauge = Gauge::default();
        gauge.set(2.5);
        gauge.inc();
        gauge.dec();
        gauge.add(-3.0);
        assert!((gauge.get() + 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn concurrent_additions_are_not_lost() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counter.inc();
                        gauge.inc();
                    }
                });
            }
        });
        assert_eq!(counter.get(), 4000);
        assert!((gauge.get() - 4000.0).abs() < f64::EPSILON);
    }
}
