//! Kinds of apiextensions.k8s.io.

mod approval;
pub mod custom_resource_definition;
pub(crate) mod metadata;
mod names;
mod schema;
#[cfg(test)]
mod schema_tests;
mod structural;
mod versions;
