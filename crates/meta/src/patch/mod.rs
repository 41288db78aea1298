//! Patches of objects.
//!
//! [`json`] is a list of operations (RFC 6902), [`merge`] a partial object (RFC 7396), and
//! [`strategic`] a partial object that is merged according to the schema of its lists. Each can be
//! applied, and created from two objects. Server-side apply is in [`crate::apply`].
//!
//! A patched object may contain nulls, unknown fields and leftover directives, like a request body:
//! it must be decoded, validated and defaulted like one.

mod describe;
mod error;
pub mod json;
mod limits;
pub mod merge;
mod patch_type;
mod precondition;
pub mod strategic;

pub use describe::as_go_prints;
pub use error::{ErrorClass, OperationError, PatchError, PointerError};
pub use limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_JSON_PATCH_OPERATIONS, MAX_SHIFTED_ITEMS};
pub use patch_type::PatchType;
pub use precondition::conflicting_resource_version;
