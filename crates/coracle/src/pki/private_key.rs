//! A private key as text, which shows itself to nobody who does not ask by name.

use std::fmt;

/// A private key in PEM.
#[derive(Clone)]
pub(crate) struct PrivateKey(String);

impl PrivateKey {
    pub(super) fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The text itself: to compute with or to store, never to print.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_shown() {
        assert_eq!(format!("{:?}", PrivateKey::new("secret".to_owned())), "PrivateKey(..)");
    }
}
