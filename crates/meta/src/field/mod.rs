//! Where in an object something is wrong, and what: the errors of validation.
//!
//! Texts are upstream's to the letter, since clients show them and tests compare them.

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
