//! PEM blocks in base64, as far as validation inspects them.
//!
//! The content of a block is only checked for being a single ASN.1 sequence. The signer verifies that it is a valid
//! request or certificate with a valid signature.

/// A block between its `BEGIN` and `END` lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The label, such as `CERTIFICATE`.
    pub(crate) label: String,
    /// Whether the content is preceded by headers, which are lines with a colon.
    pub(crate) has_headers: bool,
    /// The decoded content.
    pub(crate) content: Vec<u8>,
}

impl Block {
    /// Whether the content is exactly one ASN.1 sequence.
    pub(crate) fn is_sequence(&self) -> bool {
        let [0x30, length, rest @ ..] = self.content.as_slice() else { return false };
        if *length < 0x80 {
            return rest.len() == usize::from(*length);
        }
        let size = usize::from(*length & 0x7f);
        if size == 0 || size > 4 || rest.len() < size {
            return false;
        }
        let (digits, rest) = rest.split_at(size);
        rest.len() == digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
    }
}

/// All blocks in base64-encoded bytes; other text between them is ignored.
pub(crate) fn blocks(base64: &str) -> Vec<Block> {
    let bytes = decode_base64(base64).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut blocks = Vec::new();
    let mut rest = text.as_ref();
    while let Some((block, after)) = next_block(rest) {
        blocks.extend(block);
        rest = after;
    }
    blocks
}

/// The next block, if it is well formed, and the text after it.
fn next_block(text: &str) -> Option<(Option<Block>, &str)> {
    let (_, text) = text.split_once("-----BEGIN ")?;
    let (label, after) = text.split_once("-----")?;
    let Some((body, after_end)) = after.split_once(&format!("-----END {label}-----")) else {
        return Some((None, after));
    };
    let has_headers = body.contains(':');
    let body = if has_headers { body.split_once("\n\n").map_or("", |(_, content)| content) } else { body };
    let content = decode_base64(body);
    Some((content.map(|content| Block { label: label.to_owned(), has_headers, content }), after_end))
}

/// Decodes base64, ignoring line breaks.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
    let content = digits.iter().rposition(|digit| *digit != b'=').map_or(0, |last| last + 1);
    if !digits.len().is_multiple_of(4) || digits.len() - content > 2 {
        return None;
    }
    for digit in &digits[..content] {
        bits = bits << 6 | digit_value(*digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

fn digit_value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_with_and_without_padding() {
        assert_eq!(decode_base64("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode_base64("aGVs\nbG8h"), Some(b"hello!".to_vec()));
        assert_eq!(decode_base64("aGVsbG8"), None);
        assert_eq!(decode_base64("a*=="), None);
    }

    #[test]
    fn blocks_are_found_between_other_text() {
        // "x\n-----BEGIN A-----\nMAA=\n-----END A-----\n-----BEGIN B-----\n"
        let text = "eAotLS0tLUJFR0lOIEEtLS0tLQpNQUE9Ci0tLS0tRU5EIEEtLS0tLQotLS0tLUJFR0lOIEItLS0tLQo=";
        let found = blocks(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].label.as_str(), found[0].has_headers), ("A", false));
        assert!(found[0].is_sequence());
        assert!(blocks("").is_empty());
    }

    #[test]
    fn sequence_must_have_the_encoded_length() {
        let block =
            |content: &[u8]| Block { label: String::new(), has_headers: false, content: content.to_vec() };
        assert!(block(&[0x30, 1, 0]).is_sequence());
        assert!(block(&[0x30, 0x81, 1, 0]).is_sequence());
        assert!(!block(&[0x30, 2, 0]).is_sequence());
        assert!(!block(&[0x31, 0]).is_sequence());
        assert!(!block(&[0x30, 0x80]).is_sequence());
    }
}
