//! Cached representations of objects, reduced to the fields the scheduler reads and parsed when an object
//! arrives.

pub(crate) mod affinity;
mod metadata;
pub(crate) mod node;
pub(crate) mod pod;
mod pod_requests;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod spread;
pub(crate) mod storage;
pub(crate) mod taint;
pub(crate) mod workload;

pub(crate) use affinity::{Affinity, Term};
pub use node::Node;
pub use pod::Pod;
pub use resources::Resources;
pub(crate) use taint::{Taint, Toleration};
