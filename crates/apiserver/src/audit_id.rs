//! The id of a request, by which a client, the log and whoever is asked in turn speak of the same one.

use coracle_registry::Registry;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Where clients say it, and where they are told, as in upstream.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Ids of clients that are longer are not taken: each goes back, and into logs.
const MAX_BYTES: usize = 256;

/// The id the client gave, or a new one.
pub(crate) fn of(headers: &HeaderMap, registry: &Registry) -> HeaderValue {
    match headers.get(AUDIT_ID) {
        Some(given) if is_sane(given) => given.clone(),
        _ => new(registry),
    }
}

fn new(registry: &Registry) -> HeaderValue {
    HeaderValue::try_from(registry.new_uid()).expect("an id is made of digits and dashes")
}

/// Whether an id can be written wherever ids are.
fn is_sane(given: &HeaderValue) -> bool {
    let bytes = given.as_bytes();
    (1..=MAX_BYTES).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_client_says_is_kept_if_it_is_sane() {
        let registry = Registry::in_memory();
        let check = |given: &[u8], kept: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(AUDIT_ID, HeaderValue::from_bytes(given).unwrap());
            let id = of(&headers, &registry);
            assert_eq!(id.as_bytes() == given, kept, "{id:?}");
            assert!(!id.is_empty());
        };
        check(b"5d8ba2a7-0f3a-4c0c-9a3e-2f7b6f2b1d11", true);
        check(b"x", true);
        check(&[b'x'; MAX_BYTES], true);
        check(&[b'x'; MAX_BYTES + 1], false);
        check(b"", false);
        check(b"two words", false);
        check("ümlaut".as_bytes(), false);
    }

    #[tokio::test]
    async fn a_new_id_is_a_uuid_and_never_the_same() {
        let registry = Registry::in_memory();
        let first = of(&HeaderMap::new(), &registry);
        assert_eq!(first.len(), 36);
        assert_ne!(first, of(&HeaderMap::new(), &registry));
    }
}
