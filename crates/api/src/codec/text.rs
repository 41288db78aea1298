//! Bytes that should be text.

use std::borrow::Cow;

/// The text, with U+FFFD in the place of every byte that is part of no character, as Go has it;
/// the standard library puts one for several.
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
    fn every_bad_byte_is_shown() {
        assert_eq!(lossy(b"ok"), "ok");
        assert_eq!(lossy("a€".as_bytes()), "a€");
        assert_eq!(lossy(b"\xe2\x82/\xff"), "\u{fffd}\u{fffd}/\u{fffd}");
    }
}
