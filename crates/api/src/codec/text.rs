//! Text from bytes that may not be UTF-8.

use std::borrow::Cow;

/// Decodes UTF-8. Like Go, replaces every invalid byte with U+FFFD; the standard library replaces several with one.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invalid_byte_is_replaced() {
        assert_eq!(lossy(b"ok"), "ok");
        assert_eq!(lossy("a€".as_bytes()), "a€");
        assert_eq!(lossy(b"\xe2\x82/\xff"), "\u{fffd}\u{fffd}/\u{fffd}");
    }
}
