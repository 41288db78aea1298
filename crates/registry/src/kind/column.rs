//! Columns of the tables that `kubectl get` prints.

use std::borrow::Cow;

/// A column of a table, `TableColumnDefinition` in the API.
#[derive(Clone, Debug)]
pub struct Column {
    /// Column header.
    pub name: Cow<'static, str>,
    /// OpenAPI type of the cells: `string`, `integer`, `boolean`…
    pub value_type: Cow<'static, str>,
    /// OpenAPI format: `name` for the column with the object's name, otherwise empty.
    pub format: Cow<'static, str>,
    /// Description of the column for clients.
    pub description: Cow<'static, str>,
    /// 0 for columns that are always printed, 1 for those that only `-o wide` prints.
    pub priority: i32,
}

impl Column {
    /// The column with the object's name.
    pub fn name() -> Self {
        let format = Cow::Borrowed("name");
        Self { format, ..Self::text("Name", "the name of the object, unique in its namespace") }
    }

    /// The column with the time since the object was created.
    pub fn age() -> Self {
        Self::text("Age", "how long the object has existed")
    }

    /// A column of type `string`.
    pub fn text(name: &'static str, description: &'static str) -> Self {
        Self::of_type("string", name, description)
    }

    /// A column of type `integer`.
    pub fn integer(name: &'static str, description: &'static str) -> Self {
        Self::of_type("integer", name, description)
    }

    /// A column of type `date`.
    pub fn date(name: &'static str, description: &'static str) -> Self {
        Self::of_type("date", name, description)
    }

    /// A column of type `boolean`.
    pub fn boolean(name: &'static str, description: &'static str) -> Self {
        Self::of_type("boolean", name, description)
    }

    /// The same column, printed only with `-o wide`.
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
