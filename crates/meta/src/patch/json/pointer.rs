//! JSON pointers (RFC 6901), and access to the values they refer to.

use serde_json::Value;

use crate::patch::error::PointerError;

/// A parsed pointer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    /// The names and indices of the parents.
    parents: Vec<String>,
    /// The last name or index.
    key: String,
}

impl Pointer {
    /// Parses a pointer. `None` for the empty one, which denotes the whole document.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<String> = text.split('/').skip(1).map(unescape).collect();
        let key = parts.pop()?;
        Some(Self { parents: parts, key })
    }

    /// Returns the last name or index.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the depth of the value in the document.
    pub(super) fn depth(&self) -> usize {
        self.parents.len() + 1
    }

    /// Returns the parent object or list, mutable.
    pub(super) fn parent_mut<'d>(&self, document: &'d mut Value) -> Option<&'d mut Value> {
        let parent = self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(fields) => fields.get_mut(part),
            Value::Array(items) => {
                let at = existing_index(items.len(), part).ok()?;
                items.get_mut(at)
            }
            _ => None,
        })?;
        (parent.is_object() || parent.is_array()).then_some(parent)
    }

    /// Returns the parent object or list.
    pub(super) fn parent<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        let parent = self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(fields) => fields.get(part),
            Value::Array(items) => items.get(existing_index(items.len(), part).ok()?),
            _ => None,
        })?;
        (parent.is_object() || parent.is_array()).then_some(parent)
    }
}

/// Returns the value of an object or list under a key; an absent field is null.
pub(super) fn get<'d>(parent: &'d Value, key: &str) -> Result<&'d Value, PointerError> {
    match parent {
        Value::Array(items) => Ok(&items[existing_index(items.len(), key)?]),
        other => Ok(other.get(key).unwrap_or(&Value::Null)),
    }
}

/// Sets a field of an object, or inserts an item into a list.
pub(super) fn add(parent: &mut Value, key: &str, value: Value) -> Result<(), PointerError> {
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => items.insert(insertion_index(items.len(), key)?, value),
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        _ => return Err(PointerError::MissingKey(key.to_owned())),
    }
    Ok(())
}

/// Sets a field, or replaces an item of a list.
pub(super) fn replace(parent: &mut Value, key: &str, value: Value) -> Result<(), PointerError> {
    match parent {
        Value::Array(items) => {
            let at = existing_index(items.len(), key)?;
            items[at] = value;
            Ok(())
        }
        other => add(other, key, value),
    }
}

/// Removes a field or an item.
pub(super) fn remove(parent: &mut Value, key: &str) -> Result<Value, PointerError> {
    match parent {
        Value::Array(items) => Ok(items.remove(existing_index(items.len(), key)?)),
        Value::Object(fields) => fields.remove(key).ok_or_else(|| PointerError::MissingKey(key.to_owned())),
        _ => Err(PointerError::MissingKey(key.to_owned())),
    }
}

/// Parses the index of an existing item.
fn existing_index(len: usize, key: &str) -> Result<usize, PointerError> {
    let index = key.parse::<i64>().map_err(|_| PointerError::NotANumber(key.to_owned()))?;
    resolve(index, len)
}

/// Parses the index at which to insert an item, which may be the length of the list.
fn insertion_index(len: usize, key: &str) -> Result<usize, PointerError> {
    let index = key.parse::<i64>().map_err(|_| PointerError::NotAnIndex(key.to_owned()))?;
    resolve(index, len + 1)
}

/// Resolves an index; a negative one counts from the end.
fn resolve(index: i64, len: usize) -> Result<usize, PointerError> {
    let from_start = if index < 0 {
        usize::try_from(index.unsigned_abs()).ok().and_then(|back| len.checked_sub(back))
    } else {
        usize::try_from(index).ok()
    };
    from_start.filter(|at| *at < len).ok_or(PointerError::InvalidIndex(index))
}

/// Unescapes `~1` to a slash and `~0` to a tilde, in one pass.
fn unescape(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        text.push_str(&rest[..at]);
        let (plain, width) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        text.push(plain);
        rest = &rest[at + width..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_is_split_and_unescaped() {
        let path = |parents: &[&str], key: &str| {
            Some(Pointer {
                parents: parents.iter().map(|part| (*part).to_owned()).collect(),
                key: key.to_owned(),
            })
        };
        for (text, expected) in [
            ("", None),
            ("a", None),
            ("/", path(&[], "")),
            ("/a", path(&[], "a")),
            ("ignored/a", path(&[], "a")),
            ("/a//b/", path(&["a", "", "b"], "")),
            ("/a~1b/~0~01~2~", path(&["a/b"], "~~1~2~")),
        ] {
            assert_eq!(Pointer::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn negative_index_counts_from_end() {
        for (key, existing, insertion) in [
            ("0", Ok(0), Ok(0)),
            ("+1", Ok(1), Ok(1)),
            ("01", Ok(1), Ok(1)),
            ("2", Err(PointerError::InvalidIndex(2)), Ok(2)),
            ("3", Err(PointerError::InvalidIndex(3)), Err(PointerError::InvalidIndex(3))),
            ("-1", Ok(1), Ok(2)),
            ("-2", Ok(0), Ok(1)),
            ("-3", Err(PointerError::InvalidIndex(-3)), Ok(0)),
            (
                "x",
                Err(PointerError::NotANumber("x".to_owned())),
                Err(PointerError::NotAnIndex("x".to_owned())),
            ),
        ] {
            assert_eq!(existing_index(2, key), existing, "{key}");
            assert_eq!(insertion_index(2, key), insertion, "{key}");
        }
        assert!(existing_index(2, &i64::MIN.to_string()).is_err());
    }
}
