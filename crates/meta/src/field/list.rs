//! A list of validation errors.

use std::fmt;

use super::FieldError;

/// The validation errors of an object, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList(Vec<FieldError>);

impl ErrorList {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Returns true if there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of errors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the errors in order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.iter()
    }

    /// Returns `Ok` if there are no errors.
    ///
    /// # Errors
    /// The list itself, if it is not empty.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for ErrorList {
    /// Formats like apimachinery's aggregate: one message as is, several in brackets, duplicates
    /// once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut messages: Vec<String> = Vec::with_capacity(self.0.len());
        for error in &self.0 {
            let message = error.to_string();
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        match messages.as_slice() {
            [] => Ok(()),
            [message] => f.write_str(message),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl std::error::Error for ErrorList {}

impl From<FieldError> for ErrorList {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl FromIterator<FieldError> for ErrorList {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        Self(errors.into_iter().collect())
    }
}

impl Extend<FieldError> for ErrorList {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        self.0.extend(errors);
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    #[test]
    fn several_messages_are_printed_in_brackets() {
        let (a, b) = (Path::root("a"), Path::root("b"));
        let mut errors = ErrorList::new();
        assert_eq!(errors.to_string(), "");
        errors.push(FieldError::required(&a, ""));
        errors.push(FieldError::required(&a, ""));
        assert_eq!(errors.to_string(), "a: Required value");
        errors.push(FieldError::required(&b, ""));
        assert_eq!(errors.to_string(), "[a: Required value, b: Required value]");
        assert_eq!(errors.len(), 3);
        assert!(errors.into_result().is_err());
    }
}
