//! How names begin, so that most comparisons of two names need not go where they are stored.

/// The first bytes of a name. Ordered as names are, but equal where only what comes after differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u32);

impl Prefix {
    /// How a name begins.
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
    fn beginnings_are_ordered_as_names() {
        let names = ["", "\u{0}", "a", "ab", "abc", "abcd", "abcde", "b", "é", "\u{10ffff}"];
        assert!(names.is_sorted() && names.is_sorted_by_key(|name| Prefix::of(name)));
        assert_eq!(Prefix::of("storage"), Prefix::of("storageClassName"));
    }
}
