//! Formats of numbers and codes.

pub(super) fn is_bson_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Hyphens are optional.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text.as_bytes();
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else { return false };
        let is_variant = |byte: u8| matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
        let fits = match (group, version) {
            (2, Some(version)) => digits[0] == version,
            (3, Some(b'4' | b'5')) => is_variant(digits[0]),
            _ => true,
        };
        if !fits || !digits.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Removes spaces and hyphens.
fn sanitized(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let code = sanitized(text);
    let [digits @ .., last] = &*code else { return false };
    if digits.len() != 9
        || !digits.iter().all(u8::is_ascii_digit)
        || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let value = |byte: &u8| if *byte == b'X' { 10 } else { u32::from(byte - b'0') };
    let sum: u32 = code.iter().zip(1..).map(|(byte, weight)| weight * value(byte)).sum();
    sum.is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let code = sanitized(text);
    if code.len() != 13 || !code.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = code
        .iter()
        .zip([1, 3].into_iter().cycle())
        .map(|(byte, factor)| factor * u32::from(byte - b'0'))
        .sum();
    sum.is_multiple_of(10)
}

/// Matches the prefixes and check digits of known card issuers; ignores any characters between the
/// digits.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let prefix = |length: usize| digits.iter().take(length).fold(0, |sum, digit| sum * 10 + digit);
    let is_issued = match digits.len() {
        13 => prefix(1) == 4,
        14 => matches!(prefix(3), 300..=305) || matches!(prefix(2), 36 | 38),
        15 => matches!(prefix(2), 34 | 37) || matches!(prefix(4), 2131 | 1800),
        16 => prefix(1) == 4 || matches!(prefix(2), 51..=55 | 65 | 35) || prefix(4) == 6011,
        _ => false,
    };
    let doubled = |(index, digit): (usize, &u32)| match index % 2 {
        0 => *digit,
        _ => digit * 2 % 10 + digit * 2 / 10,
    };
    is_issued && digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

/// Both separators are required.
pub(super) fn is_ssn(text: &str) -> bool {
    let [a @ .., s1, b1, b2, s2, c1, c2, c3, c4] = text.as_bytes() else { return false };
    let digits = a.iter().chain([b1, b2, c1, c2, c3, c4]);
    let is_separator = |byte: &u8| matches!(byte, b'-' | b' ');
    a.len() == 3 && is_separator(s1) && is_separator(s2) && digits.into_iter().all(u8::is_ascii_digit)
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').collect();
    let is_component = |part: &&str| {
        let part = part.trim_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let is_plain =
            part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        is_plain && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(is_component)
}

/// Requires padding, and at least one character.
pub(super) fn is_base64(text: &str) -> bool {
    let data = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && data.bytes().all(is_data)
}
