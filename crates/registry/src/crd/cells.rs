//! Table cells of custom objects.

use coracle_meta::json_path::{self, JsonPath};
use coracle_meta::table::translate_timestamp_since;
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kind::Column;
use crate::view;

/// The column of objects whose definition declares none.
const AGE_PATH: &str = ".metadata.creationTimestamp";

/// The columns after the name.
pub(super) struct Cells {
    cells: Vec<Cell>,
}

struct Cell {
    column: Column,
    path: JsonPath,
}

impl Cells {
    /// The columns of a version. Columns from the first with an invalid path on are omitted, as in kube-apiserver.
    pub(super) fn of(columns: &[Value]) -> Self {
        if columns.is_empty() {
            let age = Column { value_type: "date".into(), ..Column::age() };
            let path = JsonPath::parse(AGE_PATH).ok();
            return Self { cells: path.map(|path| Cell { column: age, path }).into_iter().collect() };
        }
        Self { cells: columns.iter().map_while(Cell::of).collect() }
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let own = self.cells.iter().map(|cell| cell.column.clone());
        std::iter::once(Column::name()).chain(own).collect()
    }

    pub(super) fn row(&self, object: &Value, now: i64) -> Vec<Value> {
        let own = self.cells.iter().map(|cell| cell.show(object, now));
        std::iter::once(view::name(object).into()).chain(own).collect()
    }
}

impl Cell {
    fn of(column: &Value) -> Option<Self> {
        let text = |name: &str| view::text(column, &[name]).to_owned();
        let (path, description) = (text("jsonPath"), text("description"));
        let explained = || format!("Custom resource definition column (in JSONPath format): {path}");
        let parsed = JsonPath::parse(&path).ok()?;
        let column = Column {
            name: text("name").into(),
            value_type: text("type").into(),
            format: text("format").into(),
            description: if description.is_empty() { explained() } else { description }.into(),
            priority: view::integer(column, &["priority"]).and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        };
        Some(Self { column, path: parsed })
    }

    /// The first value at the path, converted to the type of the column.
    fn show(&self, object: &Value, now: i64) -> Value {
        let Ok(Some(value)) = self.path.first(object) else { return Value::Null };
        match (&*self.column.value_type, &*value) {
            ("string", value) => json_path::text(value).into_owned().into(),
            ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => whole.into(),
                #[expect(clippy::cast_possible_truncation, reason = "as Go cuts a number off")]
                (None, Some(real)) => (real as i64).into(),
                (None, None) => Value::Null,
            },
            ("number", Value::Number(number)) => match number.as_f64() {
                // Whole numbers are written without a fraction, as in Go.
                Some(real) if real.fract() == 0.0 && number.as_i64().is_some() => number.clone().into(),
                Some(real) => real.into(),
                None => Value::Null,
            },
            ("boolean", Value::Bool(truth)) => (*truth).into(),
            ("date", Value::String(text)) => match text.parse::<Time>() {
                Ok(then) => translate_timestamp_since(Some(then), Time(now)).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let column =
            |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
        let columns = [
            column("T", "string", ".spec.list"),
            column("I", "integer", ".spec.real"),
            column("N", "number", ".spec.whole"),
            column("B", "boolean", ".spec.truth"),
            column("D", "date", ".metadata.creationTimestamp"),
            column("X", "integer", ".spec.text"),
            column("R", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
        ];
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"list": [1, "x"], "real": 2.9, "whole": 3, "truth": true, "text": "no"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        });
        let cells = Cells::of(&columns);
        let expected = json!(["a", "[1,\"x\"]", 2, 3, true, "60s", null, "False"]);
        assert_eq!(Value::from(cells.row(&object, 60)), expected);
        assert_eq!(Value::from(Cells::of(&[]).row(&object, 60)), json!(["a", "60s"]));
    }
}
