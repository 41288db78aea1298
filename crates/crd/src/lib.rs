//! Semantics of the schema of a CustomResourceDefinition. Pure: no I/O, no async, no clock.
//!
//! A schema is parsed once into a [`Structural`], which is small enough to cache for hundreds of
//! kinds. It provides pruning, defaulting, validation with kube-apiserver's messages, and the
//! [`coracle_meta::schema::Schema`] that patches and apply use for all kinds.

mod defaults;
mod definition;
mod field_path;
mod format;
mod lists;
mod metadata;
mod pattern;
mod prune;
mod publish;
mod rules;
mod strategy;
mod structural;
mod to_schema;
mod validate;

pub use definition::UnknownInDefaults;
pub use format::is_known_for as is_known_format;
pub use metadata::{ConformError, Metadata, ReadMetadata};
pub use pattern::{InvalidPattern, check_pattern};
pub use publish::{CustomKind, OpenApi, definition_name};
pub use rules::ExpressionCosts;
pub use structural::{ParseError, Structural};
