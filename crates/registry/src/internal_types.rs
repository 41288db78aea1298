//! Values as kube-apiserver's messages print them: as JSON of the types that it uses internally.
//!
//! Most of those types have no JSON names, so every field is printed under its name in Go, in the order of its
//! declaration, whether it is set or not. `data/internal_types.txt` lists the types: a line per type, then a line
//! per field with the printed name, where the value is in the versioned object, the field's type, and `o` or `z` if
//! it is omitted when empty or zero. The source of a value is a path below the versioned object, `=` for the printed
//! name, `.` for the object itself, or `^` and a field of the object that contains it.
//!
//! Types are a letter (`s`tring, `i`nteger, `f`loat, `b`oolean, `q`uantity, `n`umber or string, `t`ime, b`y`tes,
//! `j`son, `a`: whether a schema allows anything) or `@` and a name, after `*` for a pointer, `[` for a list
//! and `{` for a map.

use std::collections::HashMap;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, json_text};
use serde_json::Value;

static TYPES: LazyLock<HashMap<&str, Vec<Field>>> =
    LazyLock::new(|| parse(include_str!("../data/internal_types.txt")));

struct Field {
    name: &'static str,
    source: &'static str,
    shape: &'static str,
    is_omitted: bool,
}

fn parse(text: &'static str) -> HashMap<&'static str, Vec<Field>> {
    let mut types = HashMap::new();
    let mut current: Option<&mut Vec<Field>> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        match (words.next(), words.next(), &mut current) {
            (Some(source), Some(shape), Some(fields)) => {
                let source = if source == "=" { name } else { source };
                fields.push(Field { name, source, shape, is_omitted: words.next().is_some() });
            }
            _ => current = Some(types.entry(name).or_insert_with(Vec::new)),
        }
    }
    types
}

/// A versioned value as messages print it; `shape` is a type as in the data, such as `*@core.Affinity`, or `S` for a
/// named string type, which is printed as JSON where plain strings are quoted as in Go.
pub(crate) fn printed(shape: &str, value: Option<&Value>) -> BadValue {
    if shape == "s" {
        return BadValue::from(value.and_then(Value::as_str).unwrap_or_default());
    }
    BadValue::Json(Printer { text: String::new(), depth: None }.print(shape, value))
}

/// The same with one line per field, as diffs of immutable fields are printed.
pub(crate) fn indented(shape: &str, value: Option<&Value>) -> String {
    Printer { text: String::new(), depth: Some(0) }.print(shape, value)
}

/// Printed names of the fields of a type that are neither absent nor zero, in order.
pub(crate) fn fields_set<'a>(name: &str, value: &'a Value) -> impl Iterator<Item = &'static str> + use<'a> {
    let fields: &'static [Field] = TYPES.get(name).map_or(&[], Vec::as_slice);
    let is_set = |field: &Field| {
        find(field.source, value, None).is_some_and(|value| match field.shape.as_bytes().first() {
            Some(b's' | b'b') => *value != Value::Bool(false) && value.as_str() != Some(""),
            _ => true,
        })
    };
    fields.iter().filter(move |field| is_set(field)).map(|field| field.name)
}

/// Names of the fields of a type in versioned objects, in order.
pub(crate) fn versioned_names(name: &str) -> impl Iterator<Item = &'static str> {
    TYPES.get(name).into_iter().flatten().map(|field| field.source)
}

/// The value of a field, unless it is absent or null.
fn find<'a>(source: &str, object: &'a Value, parent: Option<&'a Value>) -> Option<&'a Value> {
    let value = match (source, source.strip_prefix('^')) {
        (".", _) => Some(object),
        (_, Some(field)) => parent?.get(field),
        (path, None) => path.split('/').try_fold(object, |value, field| value.get(field)),
    };
    value.filter(|value| !value.is_null())
}

/// Writes JSON as Go does, in one line or indented by one space.
struct Printer {
    text: String,
    depth: Option<usize>,
}

impl Printer {
    fn print(mut self, shape: &str, value: Option<&Value>) -> String {
        self.value(shape, value.filter(|value| !value.is_null()), None);
        self.text
    }

    fn value(&mut self, shape: &str, value: Option<&Value>, parent: Option<&Value>) {
        let (kind, rest) = shape.split_at(shape.len().min(1));
        match (kind, value) {
            ("@", value) => self.fields(rest, value.unwrap_or(&Value::Null), parent),
            ("*", Some(value)) => self.value(rest, Some(value), parent),
            ("[", Some(Value::Array(items))) => self.list(rest, items, parent),
            ("{", Some(Value::Object(entries))) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                let is_empty = entries.is_empty();
                self.open('{');
                for (index, (key, value)) in entries.into_iter().enumerate() {
                    self.key(index, key);
                    self.value(rest, Some(value), parent);
                }
                self.close('}', is_empty);
            }
            ("*" | "[" | "{" | "j" | "t" | "y", None) | ("[" | "{", _) => self.text.push_str("null"),
            ("a", value) => {
                self.text.push_str(if value == Some(&Value::Bool(false)) { "false" } else { "true" })
            }
            ("j", Some(value)) if self.depth.is_some() => self.any(value),
            (_, Some(value)) => self.text.push_str(&json_text(value)),
            ("s" | "S", None) => self.text.push_str("\"\""),
            ("q", None) => self.text.push_str("\"0\""),
            ("b", None) => self.text.push_str("false"),
            (_, None) => self.text.push('0'),
        }
    }

    fn fields(&mut self, name: &str, object: &Value, parent: Option<&Value>) {
        let fields = TYPES.get(name).map_or(&[][..], Vec::as_slice);
        self.open('{');
        let mut count = 0;
        for field in fields {
            let value = find(field.source, object, parent);
            // A schema, a list or a boolean is the source of one of these fields.
            let value = value
                .filter(|value| field.source != "." || !field.shape.starts_with("*@") || value.is_object());
            if field.is_omitted && value.is_none_or(|value| is_zero(field.shape, value)) {
                continue;
            }
            self.key(count, field.name);
            self.value(field.shape, value, Some(object));
            count += 1;
        }
        self.close('}', count == 0);
    }

    fn list(&mut self, shape: &str, items: &[Value], parent: Option<&Value>) {
        self.open('[');
        for (index, item) in items.iter().enumerate() {
            self.next(index);
            self.value(shape, Some(item).filter(|item| !item.is_null()), parent);
        }
        self.close(']', items.is_empty());
    }

    /// JSON of no particular type.
    fn any(&mut self, value: &Value) {
        match value {
            Value::Object(_) => self.value("{j", Some(value), None),
            Value::Array(_) => self.value("[j", Some(value), None),
            value => self.text.push_str(&json_text(value)),
        }
    }

    fn open(&mut self, bracket: char) {
        self.text.push(bracket);
        self.depth = self.depth.map(|depth| depth + 1);
    }

    fn close(&mut self, bracket: char, is_empty: bool) {
        self.depth = self.depth.map(|depth| depth - 1);
        if !is_empty {
            self.new_line();
        }
        self.text.push(bracket);
    }

    fn next(&mut self, index: usize) {
        if index > 0 {
            self.text.push(',');
        }
        self.new_line();
    }

    fn key(&mut self, index: usize, key: &str) {
        self.next(index);
        self.text.push_str(&BadValue::named(key).to_string());
        self.text.push_str(if self.depth.is_some() { ": " } else { ":" });
    }

    fn new_line(&mut self) {
        if let Some(depth) = self.depth {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', depth));
        }
    }
}

/// Whether a field with `omitempty` is omitted.
fn is_zero(shape: &str, value: &Value) -> bool {
    match value {
        Value::Object(entries) => shape.starts_with('{') && entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => shape.starts_with('s') && text.is_empty(),
        Value::Number(number) => shape.starts_with('i') && number.as_i64() == Some(0),
        Value::Bool(value) => shape.starts_with('b') && !value,
        Value::Null => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_types_are_listed() {
        for (name, fields) in TYPES.iter() {
            for field in fields {
                let shape = field.shape.trim_start_matches(['*', '[', '{']);
                match shape.strip_prefix('@') {
                    Some(other) => assert!(TYPES.contains_key(other), "{name}.{}: {other}", field.name),
                    None => assert!("sifbqntyja".contains(shape), "{name}.{}: {shape}", field.name),
                }
            }
        }
    }

    #[test]
    fn recorded_values_are_printed_as_kube_apiserver_prints_them() {
        let lines: Vec<&str> = include_str!("../data/printed_values.txt").lines().skip(1).collect();
        for case in lines.chunks(3) {
            let [shape, value, expected] = case else { panic!("incomplete case {case:?}") };
            let value: Value = serde_json::from_str(value).unwrap();
            assert_eq!(printed(shape, Some(&value)).to_string(), *expected, "{shape}");
        }
    }

    #[test]
    fn absent_fields_are_printed_as_their_zero_values() {
        let reference = json!({"kind": "Pod", "name": "p"});
        assert_eq!(
            printed("@core.ObjectReference", Some(&reference)).to_string(),
            r#"{"Kind":"Pod","Namespace":"","Name":"p","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}"#
        );
        assert_eq!(printed("*@core.ObjectReference", None).to_string(), "null");
        assert_eq!(
            printed("@storage.VolumeAttachmentSpec", Some(&json!({"attacher": "a", "source": {}})))
                .to_string(),
            r#"{"Attacher":"a","Source":{"PersistentVolumeName":null,"InlineVolumeSpec":null},"NodeName":""}"#
        );
    }

    #[test]
    fn metadata_of_a_template_is_printed_beside_its_spec_and_under_its_json_names() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": []}}});
        assert_eq!(
            printed("@resource.ResourceClaimTemplateSpec", Some(&template)).to_string(),
            r#"{"labels":{"a":"b"},"Spec":{"Devices":{"Requests":[],"Constraints":null,"Config":null}}}"#
        );
    }

    #[test]
    fn namespaces_of_the_host_are_printed_in_the_security_context() {
        let spec =
            json!({"hostNetwork": true, "shareProcessNamespace": false, "securityContext": {"runAsUser": 1}});
        let text = printed("@core.PodSpec", Some(&spec)).to_string();
        let expected = r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"HostIPC":false,"ShareProcessNamespace":false,"HostUsers":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":1,"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn schema_that_may_also_be_a_list_or_a_truth_value_is_printed_as_a_struct() {
        let schema = json!({"items": {"type": "a"}, "additionalItems": true, "additionalProperties": false});
        let text = printed("@apiextensions.JSONSchemaProps", Some(&schema)).to_string();
        for expected in [
            r#""Items":{"Schema":{"ID":"","#,
            r#""JSONSchemas":null},"AllOf":null"#,
            r#""AdditionalItems":{"Allows":true,"Schema":null}"#,
            r#""AdditionalProperties":{"Allows":false,"Schema":null}"#,
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn indented_form_has_a_line_per_field() {
        let source = json!({"hostPath": {"path": "/tmp/x<y", "type": ""}});
        let text = indented("@core.PersistentVolumeSource", Some(&source));
        let expected = "{\n \"GCEPersistentDisk\": null,\n \"AWSElasticBlockStore\": null,\n \"HostPath\": {\n  \"Path\": \"/tmp/x\\u003cy\",\n  \"Type\": \"\"\n },\n \"Glusterfs\": null,\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(" \"CSI\": null\n}"), "{text}");
        assert_eq!(indented("[s", Some(&json!([]))), "[]");
    }
}
