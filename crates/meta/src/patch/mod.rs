//! Patches: a change described apart from the object it is made to.
//!
//! [`json`] is a list of operations (RFC 6902), [`merge`] a partial object (RFC 7396), and
//! [`strategic`] a partial object that is merged by what the schema says of its lists. Each
//! can be applied and, from two objects, made. Server-side apply is no patch in this sense.
//!
//! What comes out may still hold nulls, unknown fields and leftovers of directives, just as
//! a request body may: it is decoded, checked and defaulted like one.

mod describe;
mod error;
pub mod json;
mod limits;
pub mod merge;
mod patch_type;
mod precondition;
pub mod strategic;

pub use describe::as_go_prints;
pub use error::{ErrorClass, OperationError, PatchError, PlaceError};
pub use limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_JSON_PATCH_OPERATIONS, MAX_SHIFTED_ITEMS};
pub use patch_type::PatchType;
pub use precondition::wanted_resource_version;
