//! What the benchmarks have in common: a stopwatch, percentiles, an etcd to compare with, and
//! definitions of custom resources.

pub mod custom;
pub mod etcd;
pub mod measure;
