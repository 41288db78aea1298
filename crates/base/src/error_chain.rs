//! Formats an error and all its sources on one line, for logs.

use std::error::Error;
use std::fmt;

/// Displays an error followed by its sources, separated by colons. Skips a source whose text the
/// line already contains, because many libraries repeat their source in their own message.
///
/// ```
/// use coracle_base::ErrorChain;
///
/// let error = std::io::Error::other("the disk is gone");
/// assert_eq!(ErrorChain(&error).to_string(), "the disk is gone");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
            next = error.source();
        }
        f.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        source: Option<Box<Failed>>,
    }

    fn failed(text: &'static str, source: Option<Failed>) -> Failed {
        Failed { text, source: source.map(Box::new) }
    }

    #[test]
    fn error_chain_with_repeated_source_prints_it_once() {
        let error =
            failed("cannot write", Some(failed("cannot sync: no space", Some(failed("no space", None)))));
        assert_eq!(ErrorChain(&error).to_string(), "cannot write: cannot sync: no space");
    }
}
