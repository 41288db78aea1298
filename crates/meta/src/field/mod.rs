//! Validation errors with the path of the field.
//!
//! Messages are identical to kube-apiserver's, because clients show them and tests compare them.

mod error;
mod format;
mod list;
mod path;
mod ratchet;

pub use error::{BadValue, ErrorKind, FieldError};
pub(crate) use format::is_printable;
pub use format::{Quoted, json_text, quoted};
pub use list::ErrorList;
pub use path::Path;
pub use ratchet::Ratchet;
