//! Server-side apply and field management.
//!
//! `metadata.managedFields` records which manager wrote which field of an object. [`FieldManager`]
//! updates it on each write and merges applied configurations. It builds on sets of fields
//! ([`FieldSet`]) and on the types of a schema ([`typed`]).
//!
//! This module does not default, prune, validate or store objects: the caller does that with the
//! result, and calls [`unchanged_but_for_times`] to detect a write that changes nothing.

mod conflict;
mod equality;
mod field_filter;
mod field_manager;
mod field_set;
mod fields_v1;
pub(crate) mod go_format;
mod last_applied;
mod lazy_fields;
mod managed_fields;
mod path_element;
mod prune;
mod scale;
mod timestamp;
pub mod typed;
mod update;
mod value_order;
mod versions;

pub use conflict::{Cause, Conflicts};
pub use equality::{restore_times, unchanged_but_for_times};
pub use field_filter::{FieldFilter, PathPattern, PatternStep, ResetFields};
pub use field_manager::{Applied, ApplyError, FieldManager, Writer};
pub use field_set::{FieldSet, Path};
pub use fields_v1::{FieldsV1Error, MAX_DEPTH, MAX_FIELDS};
pub use last_applied::LAST_APPLIED_ANNOTATION;
pub use managed_fields::{
    ManagedFields, ManagedFieldsEntry, ManagedFieldsError, ManagerId, Operation, is_reset,
};
pub use path_element::{KeyField, PathElement};
pub use scale::ScaleOwnership;
pub use versions::{ConversionError, OneVersion, Versions};
