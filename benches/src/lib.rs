//! Shared code of the benchmarks: a stopwatch, percentiles, etcd, and CustomResourceDefinitions.

pub mod custom;
pub mod etcd;
pub mod measure;
