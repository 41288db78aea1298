//! Places in a document: paths to them, and what can be done at the end of one.

use serde_json::Value;

use crate::patch::error::PlaceError;

/// A path, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The names and indices that lead to the parent.
    parents: Vec<String>,
    /// The last one.
    key: String,
}

impl Path {
    /// Takes a path apart. The empty path has no parts and is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<String> = text.split('/').skip(1).map(unescape).collect();
        let key = parts.pop()?;
        Some(Self { parents: parts, key })
    }

    /// The last part.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// How deep in the document the place is.
    pub(super) fn depth(&self) -> usize {
        self.parents.len() + 1
    }

    /// The object or list that has the place, to change it there.
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

    /// The object or list that has the place, to look at it.
    pub(super) fn parent<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        let parent = self.parents.iter().try_fold(document, |value, part| match value {
            Value::Object(fields) => fields.get(part),
            Value::Array(items) => items.get(existing_index(items.len(), part).ok()?),
            _ => None,
        })?;
        (parent.is_object() || parent.is_array()).then_some(parent)
    }
}

/// What stands in an object or list under a key; an absent field is null.
pub(super) fn get<'d>(parent: &'d Value, key: &str) -> Result<&'d Value, PlaceError> {
    match parent {
        Value::Array(items) => Ok(&items[existing_index(items.len(), key)?]),
        other => Ok(other.get(key).unwrap_or(&Value::Null)),
    }
}

/// Puts a value under a key: into an object, whatever was there, or between items of a list.
pub(super) fn add(parent: &mut Value, key: &str, value: Value) -> Result<(), PlaceError> {
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => items.insert(insertion_index(items.len(), key)?, value),
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        _ => return Err(PlaceError::MissingKey(key.to_owned())),
    }
    Ok(())
}

/// Puts a value in the place of a field, there or not, or of an item.
pub(super) fn replace(parent: &mut Value, key: &str, value: Value) -> Result<(), PlaceError> {
    match parent {
        Value::Array(items) => {
            let at = existing_index(items.len(), key)?;
            items[at] = value;
            Ok(())
        }
        other => add(other, key, value),
    }
}

/// Takes away a field or an item.
pub(super) fn remove(parent: &mut Value, key: &str) -> Result<Value, PlaceError> {
    match parent {
        Value::Array(items) => Ok(items.remove(existing_index(items.len(), key)?)),
        Value::Object(fields) => fields.remove(key).ok_or_else(|| PlaceError::MissingKey(key.to_owned())),
        _ => Err(PlaceError::MissingKey(key.to_owned())),
    }
}

/// The index of an item that is there.
fn existing_index(len: usize, key: &str) -> Result<usize, PlaceError> {
    let index = key.parse::<i64>().map_err(|_| PlaceError::NotANumber(key.to_owned()))?;
    resolve(index, len)
}

/// The index of a new item, which may come after all others.
fn insertion_index(len: usize, key: &str) -> Result<usize, PlaceError> {
    let index = key.parse::<i64>().map_err(|_| PlaceError::NotAnIndex(key.to_owned()))?;
    resolve(index, len + 1)
}

/// A negative index counts from the end.
fn resolve(index: i64, len: usize) -> Result<usize, PlaceError> {
    let from_start = if index < 0 {
        usize::try_from(index.unsigned_abs()).ok().and_then(|back| len.checked_sub(back))
    } else {
        usize::try_from(index).ok()
    };
    from_start.filter(|at| *at < len).ok_or(PlaceError::InvalidIndex(index))
}

/// Reads `~1` as a slash and `~0` as a tilde, in one pass.
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
    fn paths_are_taken_apart() {
        let path = |parents: &[&str], key: &str| {
            Some(Path {
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
            assert_eq!(Path::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn indices_count_from_either_end() {
        for (key, existing, insertion) in [
            ("0", Ok(0), Ok(0)),
            ("+1", Ok(1), Ok(1)),
            ("01", Ok(1), Ok(1)),
            ("2", Err(PlaceError::InvalidIndex(2)), Ok(2)),
            ("3", Err(PlaceError::InvalidIndex(3)), Err(PlaceError::InvalidIndex(3))),
            ("-1", Ok(1), Ok(2)),
            ("-2", Ok(0), Ok(1)),
            ("-3", Err(PlaceError::InvalidIndex(-3)), Ok(0)),
            ("x", Err(PlaceError::NotANumber("x".to_owned())), Err(PlaceError::NotAnIndex("x".to_owned()))),
        ] {
            assert_eq!(existing_index(2, key), existing, "{key}");
            assert_eq!(insertion_index(2, key), insertion, "{key}");
        }
        assert!(existing_index(2, &i64::MIN.to_string()).is_err());
    }
}
