//! Columns of tables.

use std::borrow::Cow;

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// What stands above it.
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `boolean`…
    pub value_type: Cow<'static, str>,
    /// `name` for the name, else empty.
    pub format: Cow<'static, str>,
    /// What it means.
    pub description: Cow<'static, str>,
    /// 0 is always shown, 1 only when asked for more.
    pub priority: i32,
}

impl Column {
    /// The object's name.
    pub fn name() -> Self {
        let format = Cow::Borrowed("name");
        Self { format, ..Self::text("Name", "the name of the object, unique in its namespace") }
    }

    /// How long it has existed.
    pub fn age() -> Self {
        Self::text("Age", "how long the object has existed")
    }

    /// Some text.
    pub fn text(name: &'static str, description: &'static str) -> Self {
        Self::of_type("string", name, description)
    }

    /// A whole number.
    pub fn integer(name: &'static str, description: &'static str) -> Self {
        Self::of_type("integer", name, description)
    }

    /// A time.
    pub fn date(name: &'static str, description: &'static str) -> Self {
        Self::of_type("date", name, description)
    }

    /// True or false.
    pub fn boolean(name: &'static str, description: &'static str) -> Self {
        Self::of_type("boolean", name, description)
    }

    /// The same, shown only when asked for more.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    fn of_type(value_type: &'static str, name: &'static str, description: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value_type: Cow::Borrowed(value_type),
            format: Cow::Borrowed(""),
            description: Cow::Borrowed(description),
            priority: 0,
        }
    }
}
