//! In which form bodies come and answers go.

mod accept;
mod decode;
mod encode;

pub(crate) use accept::{Shape, Wanted};
pub(crate) use decode::{Decoding, decode, media_type};
pub(crate) use encode::{Encoding, object, page, respond, table, to_json, to_value, tree};
