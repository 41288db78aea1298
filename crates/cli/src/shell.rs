//! Quoting of text that users paste into a shell.

use std::borrow::Cow;

/// Returns `text` as one word of a POSIX shell, quoted if needed.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+:@%,=".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_special_characters_are_quoted() {
        for (text, expected) in [
            ("/var/lib/coracle", "/var/lib/coracle"),
            ("/tmp/Größe-1", "/tmp/Größe-1"),
            ("/my data", "'/my data'"),
            ("/it's", r"'/it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
