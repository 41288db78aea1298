//! What goes over the wire: the types of every built-in Kubernetes kind, and the codecs that
//! read and write objects of them. Pure: no I/O, no async, no clock.
//!
//! Objects are [`serde_json::Value`] trees everywhere; nothing here has a struct per kind.
//! [`schema`] tells what a tree of a kind looks like and [`codec`] moves trees to and from
//! bytes, driven by it. [`usage`] says how much of what quotas limit an object uses.

pub mod codec;
pub mod openapi;
pub mod schema;
pub mod usage;
