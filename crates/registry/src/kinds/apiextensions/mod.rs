//! Kinds of apiextensions.k8s.io.

mod approval;
mod ca_bundle;
pub mod custom_resource_definition;
#[cfg(test)]
mod definition_tests;
pub(crate) mod metadata;
mod names;
mod options;
mod parts;
mod root;
mod schema;
#[cfg(test)]
mod schema_tests;
mod structural;
mod versions;
mod walk;
mod warnings;
