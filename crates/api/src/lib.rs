//! Wire types of every built-in Kubernetes kind, and the codecs that read and write objects of them. Pure: no I/O, no
//! async, no clock.
//!
//! Objects are [`serde_json::Value`] trees everywhere; no kind has a struct of its own. [`schema`] describes the
//! fields of each kind, [`codec`] uses it to convert between trees and bytes, and [`openapi`] to publish OpenAPI
//! documents. [`usage`] computes the usage of an object for quotas.

pub mod codec;
pub mod openapi;
pub mod schema;
pub mod usage;
