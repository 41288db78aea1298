//! Keys and prefixes: byte strings in lexical order.

use crate::error::{Error, Result};

/// Maximum key length, including the scope. The longest Kubernetes key (tenant, group, resource, a namespace of 63
/// and a name of 253 bytes) is below 1 KiB; the rest is headroom.
pub const MAX_KEY_BYTES: usize = 4096;

pub(crate) fn check(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::InvalidKey { reason: "it is empty" });
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::TooLarge { what: "key", bytes: key.len(), limit: MAX_KEY_BYTES });
    }
    Ok(())
}

/// The first key after all keys that start with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Formats a key for messages, readable if it is text.
pub(crate) fn display(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_next_sibling() {
        let cases: [(&[u8], Option<&[u8]>); 5] = [
            (b"a/", Some(b"a0")),
            (b"a", Some(b"b")),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"", None),
        ];
        for (prefix, end) in cases {
            assert_eq!(prefix_end(prefix).as_deref(), end);
        }
    }

    #[test]
    fn empty_and_oversized_keys_are_rejected() {
        assert!(check(b"").is_err());
        assert!(check(&[b'k'; MAX_KEY_BYTES]).is_ok());
        assert!(check(&[b'k'; MAX_KEY_BYTES + 1]).is_err());
    }
}
