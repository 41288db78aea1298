//! The audit ID of a request, with which entries in the logs of client and servers are correlated.

use coracle_registry::Registry;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the audit ID in requests and responses, as in kube-apiserver.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Longer IDs from clients are replaced, because each is returned in the response and written to logs.
const MAX_BYTES: usize = 256;

/// Returns the client's audit ID if it is usable, otherwise a new one.
pub(crate) fn of(headers: &HeaderMap, registry: &Registry) -> HeaderValue {
    match headers.get(AUDIT_ID) {
        Some(given) if is_sane(given) => given.clone(),
        _ => new(registry),
    }
}

fn new(registry: &Registry) -> HeaderValue {
    HeaderValue::try_from(registry.new_uid()).expect("an id is made of digits and dashes")
}

/// Returns true if an ID can be written to headers and logs.
fn is_sane(given: &HeaderValue) -> bool {
    let bytes = given.as_bytes();
    (1..=MAX_BYTES).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn audit_id_of_a_client_is_kept_if_it_is_sane() {
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
    async fn new_audit_ids_are_distinct_uuids() {
        let registry = Registry::in_memory();
        let first = of(&HeaderMap::new(), &registry);
        assert_eq!(first.len(), 36);
        assert_ne!(first, of(&HeaderMap::new(), &registry));
    }
}
