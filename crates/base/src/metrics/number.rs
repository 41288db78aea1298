//! Numbers that are counted: those that only grow, and those that go up and down.

use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Number, Text};
use super::{Metric, Type};

/// What only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
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

    fn tell(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, self.get());
    }
}

/// What goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(Float);

impl Gauge {
    /// It is this now.
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// It is so much more, or less.
    pub fn add(&self, more: f64) {
        self.0.add(more);
    }

    /// One more.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// One less.
    pub fn dec(&self) {
        self.add(-1.0);
    }

    /// What it is.
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

    fn tell(&self, name: &str, labels: &[(&str, &str)], text: &mut Text) {
        text.sample(name, labels, Number(self.get()));
    }
}

/// A number with a fraction that many change at once.
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
        // It never declines.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_go_up_and_down() {
        let gauge = Gauge::default();
        gauge.set(2.5);
        gauge.inc();
        gauge.dec();
        gauge.add(-3.0);
        assert!((gauge.get() + 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn nothing_is_lost_when_many_count() {
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
