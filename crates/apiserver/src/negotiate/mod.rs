//! Content negotiation: decoding of request bodies, and encoding of responses and watch events.

mod accept;
mod decode;
mod encode;
mod frame;
mod gzip;
mod indent;
mod list;
mod messages;
mod respond;
mod table;

pub(crate) use accept::{AcceptHeaders, OFFERED, Offer, ResponseFormat, Shape, check_representation};
pub(crate) use decode::{
    Decoding, claims_otherwise, clipped, decode, decode_delete_options, decode_untyped, media_type,
};
pub(crate) use encode::{Encoding, object, seen, tree};
pub(crate) use frame::{EventType, FrameCache, Framing};
pub(crate) use list::{page, page_all_clusters};
pub(crate) use messages::MessageCache;
pub(crate) use respond::{document, respond, status, to_json, to_value};
pub(crate) use table::table;
