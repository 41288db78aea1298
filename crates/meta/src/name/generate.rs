//! Name generation from `generateName`.

/// Alphabet of random suffixes: no vowels, so no words, and no characters that look alike.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Number of random characters appended.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;

/// Maximum length of the `generateName` used, so that the result is a DNS label.
const MAX_BASE_LENGTH: usize = 63 - GENERATED_SUFFIX_LENGTH;

/// Appends a random suffix, given as indices into [`ALPHABET`]; larger numbers wrap around.
pub fn generate_name(base: &str, digits: [u8; GENERATED_SUFFIX_LENGTH]) -> String {
    let mut name = base[..base.floor_char_boundary(MAX_BASE_LENGTH)].to_owned();
    name.extend(digits.iter().map(|digit| char::from(ALPHABET[usize::from(*digit) % ALPHABET.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_name_is_truncated_to_dns_label() {
        assert_eq!(generate_name("web-", [0, 1, 25, 26, 27]), "web-bc89b");
        assert_eq!(generate_name(&"a".repeat(70), [0; 5]), format!("{}bbbbb", "a".repeat(58)));
        assert_eq!(generate_name(&"ä".repeat(70), [0; 5]).chars().count(), 34);
    }
}
