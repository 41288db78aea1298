//! The types of all built-in kinds, of every group and version that can be served.
//!
//! They sit compressed in the binary and are expanded on first use, in two steps that do not
//! need each other: [`types`] is the table the codecs walk, with protobuf numbers and what is
//! written when a field is empty; [`graph`] is the node graph that patches, apply and custom
//! resources share.

mod attributes;
mod data;
mod graph;
mod types;

pub use attributes::Attributes;
pub(crate) use data::inflate;
pub use graph::{Graph, graph};
pub use types::{Entry, Field, Item, Shape, Single, Slot, Type, TypeId, Types, types};
