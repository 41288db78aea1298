//! The `spec` of a claim as messages show it: with the fields of Go's type, in their order.

use coracle_meta::field::BadValue;
use serde_json::{Map, Value};

/// A value in the form of Go's JSON, with names in the order in which they stand.
enum Shown {
    Text(String),
    List(Vec<Shown>),
    Fields(Vec<(String, Shown)>),
}

/// The text of a `spec`.
pub(super) fn spec(spec: &Map<String, Value>) -> String {
    let field = |name: &str| plain(spec.get(name));
    let source = |name: &str, fields: &[(&str, &str)]| match spec.get(name) {
        None => null(),
        Some(source) => named(fields, |name| match (name, source.get(name)) {
            ("kind" | "name", None) => text(""),
            (_, value) => plain(value),
        }),
    };
    let resources = spec.get("resources");
    let list = |name: &str| plain(resources.and_then(|resources| resources.get(name)));
    let local = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")];
    let mut reference = local.to_vec();
    reference.push(("Namespace", "namespace"));
    let shown = Shown::Fields(vec![
        ("AccessModes".to_owned(), field("accessModes")),
        ("Selector".to_owned(), selector(spec.get("selector"))),
        ("Resources".to_owned(), named(&[("Limits", "limits"), ("Requests", "requests")], list)),
        ("VolumeName".to_owned(), spec.get("volumeName").map_or_else(|| text(""), |name| plain(Some(name)))),
        ("StorageClassName".to_owned(), field("storageClassName")),
        ("VolumeMode".to_owned(), field("volumeMode")),
        ("DataSource".to_owned(), source("dataSource", &local)),
        ("DataSourceRef".to_owned(), source("dataSourceRef", &reference)),
        ("VolumeAttributesClassName".to_owned(), field("volumeAttributesClassName")),
    ]);
    let mut text = String::new();
    write(&shown, 0, &mut text);
    text
}

fn null() -> Shown {
    Shown::Text("null".to_owned())
}

fn text(text: &str) -> Shown {
    Shown::Text(BadValue::named(text).to_string())
}

fn named(fields: &[(&str, &str)], value: impl Fn(&str) -> Shown) -> Shown {
    Shown::Fields(fields.iter().map(|(go, name)| ((*go).to_owned(), value(name))).collect())
}

/// Selectors have the same names in Go as in JSON, but labels come first.
fn selector(selector: Option<&Value>) -> Shown {
    let Some(selector) = selector else { return null() };
    let fields = ["matchLabels", "matchExpressions"].into_iter();
    let fields = fields.filter_map(|name| Some((name.to_owned(), plain(Some(selector.get(name)?)))));
    Shown::Fields(fields.collect())
}

fn plain(value: Option<&Value>) -> Shown {
    match value {
        None => null(),
        Some(Value::Array(items)) => Shown::List(items.iter().map(|item| plain(Some(item))).collect()),
        Some(Value::Object(fields)) => {
            Shown::Fields(fields.iter().map(|(name, value)| (name.clone(), plain(Some(value)))).collect())
        }
        Some(value) => Shown::Text(BadValue::json(value).to_string()),
    }
}

fn write(shown: &Shown, depth: usize, text: &mut String) {
    match shown {
        Shown::Text(value) => text.push_str(value),
        Shown::List(items) => {
            let items = items.iter().map(|item| (String::new(), item));
            write_parts(items, ('[', ']'), depth, text);
        }
        Shown::Fields(fields) => {
            let fields = fields.iter().map(|(name, value)| (format!("{}: ", BadValue::named(name)), value));
            write_parts(fields, ('{', '}'), depth, text);
        }
    }
}

fn write_parts<'a>(
    parts: impl ExactSizeIterator<Item = (String, &'a Shown)>,
    brackets: (char, char),
    depth: usize,
    text: &mut String,
) {
    let count = parts.len();
    text.push(brackets.0);
    for (index, (name, value)) in parts.enumerate() {
        text.push('\n');
        text.push_str(&" ".repeat(depth + 1));
        text.push_str(&name);
        write(value, depth + 1, text);
        if index + 1 < count {
            text.push(',');
        }
    }
    if count > 0 {
        text.push('\n');
        text.push_str(&" ".repeat(depth));
    }
    text.push(brackets.1);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_those_of_go() {
        let Value::Object(claim) = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "selector": {}, "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}})
        else {
            panic!("not an object");
        };
        let expected = r#"{
 "AccessModes": [
  "ReadWriteOnce"
 ],
 "Selector": {},
 "Resources": {
  "Limits": null,
  "Requests": {
   "storage": "1Gi"
  }
 },
 "VolumeName": "",
 "StorageClassName": null,
 "VolumeMode": null,
 "DataSource": {
  "APIGroup": null,
  "Kind": "PersistentVolumeClaim",
  "Name": "a"
 },
 "DataSourceRef": null,
 "VolumeAttributesClassName": null
}"#;
        assert_eq!(spec(&claim), expected);
    }
}
