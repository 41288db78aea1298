//! Prefixes of names: an inline sort key that avoids most string comparisons.

/// The first four bytes of a name. Orders like names; names that differ only later have equal
/// prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u32);

impl Prefix {
    /// Returns the prefix of a name.
    pub fn of(name: &str) -> Self {
        let mut bytes = [0; 4];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(u32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_order_like_names() {
        let names = ["", "\u{0}", "a", "ab", "abc", "abcd", "abcde", "b", "é", "\u{10ffff}"];
        assert!(names.is_sorted() && names.is_sorted_by_key(|name| Prefix::of(name)));
        assert_eq!(Prefix::of("storage"), Prefix::of("storageClassName"));
    }
}
