//! Text that a user may paste into a shell.

use std::borrow::Cow;

/// One word of a POSIX shell, in quotes if it needs them.
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
    fn only_what_needs_it_is_quoted() {
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
