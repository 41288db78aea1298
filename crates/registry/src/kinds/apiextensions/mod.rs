//! Kinds of apiextensions.k8s.io.

mod approval;
pub mod custom_resource_definition;
mod names;
mod schema;
mod structural;
mod versions;
