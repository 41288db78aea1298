//! What the benchmarks have in common: a stopwatch, percentiles, and an etcd to compare with.

pub mod etcd;
pub mod measure;
