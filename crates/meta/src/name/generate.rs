//! Names made by the server from a `generateName`.

/// What random suffixes are made of: no vowels, so no words, and no look-alikes.
pub const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many random characters are appended.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;

/// Longest part of a `generateName` that is kept, so that the whole is a DNS label.
const MAX_BASE_LENGTH: usize = 63 - GENERATED_SUFFIX_LENGTH;

/// Appends a random suffix, given as positions in [`ALPHABET`]; larger numbers wrap around.
pub fn generate_name(base: &str, digits: [u8; GENERATED_SUFFIX_LENGTH]) -> String {
    let mut name = base[..base.floor_char_boundary(MAX_BASE_LENGTH)].to_owned();
    name.extend(digits.iter().map(|digit| char::from(ALPHABET[usize::from(*digit) % ALPHABET.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_appended_and_the_whole_stays_a_label() {
        assert_eq!(generate_name("web-", [0, 1, 25, 26, 27]), "web-bc89b");
        assert_eq!(generate_name(&"a".repeat(70), [0; 5]), format!("{}bbbbb", "a".repeat(58)));
        assert_eq!(generate_name(&"ä".repeat(70), [0; 5]).chars().count(), 34);
    }
}
