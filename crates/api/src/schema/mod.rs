//! The types of all built-in kinds, of every group and version that can be served.
//!
//! They are embedded in compressed form and expanded on first use, in two independent steps: [`types`] is the table
//! for the codecs, with protobuf numbers and the rules for empty fields; [`graph`] is the node graph that patches,
//! server-side apply and custom resources share.

mod attributes;
mod data;
mod graph;
mod types;

pub use attributes::Attributes;
pub(crate) use data::inflate;
pub use graph::{Graph, graph};
pub use types::{Entry, Field, Item, Shape, Single, Slot, Type, TypeId, Types, types};
