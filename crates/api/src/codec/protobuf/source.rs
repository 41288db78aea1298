//! Sources of messages: a tree, or the JSON text of a stored object ([`super::text`]).

use std::borrow::Cow;

use coracle_meta::go_json;
use serde_json::Value;

use crate::schema::Type;

/// A JSON value other than `null`.
pub(super) trait Source<'a>: Copy {
    /// The fields of an object of a type.
    type Fields: Fields<Self>;

    /// The fields of an object; none for other values and for `null`.
    fn fields(object: Option<Self>, one: &Type) -> Self::Fields;
    /// The members of an object, sorted by name; `None` is `null`.
    fn members(self) -> impl Iterator<Item = (Cow<'a, [u8]>, Option<Self>)>;
    /// The items of a list; `None` is `null`.
    fn items(self) -> impl Iterator<Item = Option<Self>>;
    /// The content of a string.
    fn string(self) -> Option<Cow<'a, [u8]>>;
    fn integer(self) -> Option<i64>;
    fn double(self) -> Option<f64>;
    fn is_true(self) -> bool;
    fn is_object(self) -> bool;
    /// Compact JSON of the value.
    fn json(self) -> Cow<'a, [u8]>;
}

/// The fields of an object.
pub(super) trait Fields<S> {
    /// The value of a field, by its index in the type and its name; `None` if it is absent or `null`.
    fn get(&self, index: u16, name: &str) -> Option<S>;
}

fn not_null(value: &Value) -> Option<&Value> {
    (!value.is_null()).then_some(value)
}

impl<'a> Source<'a> for &'a Value {
    type Fields = Option<Self>;

    fn fields(object: Option<Self>, _one: &Type) -> Self::Fields {
        object
    }

    fn members(self) -> impl Iterator<Item = (Cow<'a, [u8]>, Option<Self>)> {
        self.as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (Cow::from(name.as_bytes()), not_null(value)))
    }

    fn items(self) -> impl Iterator<Item = Option<Self>> {
        self.as_array().into_iter().flatten().map(not_null)
    }

    fn string(self) -> Option<Cow<'a, [u8]>> {
        self.as_str().map(|text| Cow::from(text.as_bytes()))
    }

    fn integer(self) -> Option<i64> {
        self.as_i64()
    }

    fn double(self) -> Option<f64> {
        self.as_f64()
    }

    fn is_true(self) -> bool {
        *self == Value::Bool(true)
    }

    fn is_object(self) -> bool {
        self.is_object()
    }

    fn json(self) -> Cow<'a, [u8]> {
        go_json::to_vec(self).unwrap_or_default().into()
    }
}

impl<'a> Fields<&'a Value> for Option<&'a Value> {
    fn get(&self, _index: u16, name: &str) -> Option<&'a Value> {
        self.and_then(|object| object.get(name)).and_then(not_null)
    }
}
