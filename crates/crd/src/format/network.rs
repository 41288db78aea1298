//! Formats of host names and network addresses.

use coracle_meta::name::{parse_cidr_sloppy, parse_ip_sloppy};

/// Maximum length of a host name, in bytes.
const MAX_HOSTNAME: usize = 255;

/// Maximum length of a label of a host name.
const MAX_LABEL: usize = 63;

/// Accepts leading zeros, like the first releases of Kubernetes.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && parse_ip_sloppy(text).is_some()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    parse_cidr_sloppy(text).is_some()
}

/// Accepts 6, 8 or 20 bytes in hexadecimal: without separators, in groups of two or, with points,
/// of four digits.
pub(super) fn is_mac(text: &str) -> bool {
    let has_groups = |separator: char, length: usize, counts: [usize; 3]| {
        let groups: Vec<&str> = text.split(separator).collect();
        let is_group =
            |group: &&str| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit());
        counts.contains(&groups.len()) && groups.iter().all(is_group)
    };
    let is_whole = matches!(text.len(), 12 | 16 | 40) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole
        || has_groups(':', 2, [6, 8, 20])
        || has_groups('-', 2, [6, 8, 20])
        || has_groups('.', 4, [3, 4, 10])
}

/// Accepts letters and symbols of all scripts.
pub(super) fn is_hostname(text: &str) -> bool {
    let fits = text.len() <= MAX_HOSTNAME && text.split('.').all(|label| label.len() <= MAX_LABEL);
    fits && (is_single_label(text) || is_domain(text))
}

/// Matches a single label, with at most one hyphen, after the first character.
fn is_single_label(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next().is_some_and(is_host_character);
    let rest = chars.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    first && rest.chars().count() < MAX_LABEL && rest.chars().all(is_host_character)
}

fn is_domain(text: &str) -> bool {
    let Some((labels, top)) = text.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        let ends = [label.chars().next(), label.chars().next_back()];
        ends.into_iter().all(|end| end.is_some_and(is_host_character))
            && label.chars().count() <= MAX_LABEL
            && label.chars().all(|c| c == '-' || is_host_character(c))
    };
    let is_top = (2..=MAX_LABEL).contains(&top.chars().count()) && top.chars().all(is_letter);
    is_top && labels.split('.').all(is_label)
}

fn is_host_character(c: char) -> bool {
    if c.is_ascii() {
        // The ASCII characters in the Unicode category of symbols.
        return c.is_ascii_alphanumeric() || matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    }
    is_in_class(r"^[\p{S}\p{L}]$", c)
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in_class(r"^\p{L}$", c) }
}

fn is_in_class(pattern: &str, c: char) -> bool {
    crate::pattern::matches(pattern, c.encode_utf8(&mut [0; 4])).unwrap_or(false)
}

pub(super) fn is_short_name(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_kubernetes_label(text)
}

pub(super) fn is_long_name(text: &str) -> bool {
    const MAX_LONG_NAME: usize = 253;
    text.len() <= MAX_LONG_NAME && text.split('.').all(is_kubernetes_label)
}

fn is_kubernetes_label(text: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| *byte == b'-' || is_end(Some(byte)))
}
