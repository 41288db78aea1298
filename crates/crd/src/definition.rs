//! Validation of the defaults in a schema, when a definition is written.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Map, Value, json};

use crate::metadata::{self, ReadMetadata, Reader};
use crate::rules::{Evaluation, Ratchet};
use crate::structural::Schema;
use crate::validate::{self, Reading};
use crate::{Structural, field_path};

impl Structural {
    /// Validates the defaults of a schema at `path` against the schema itself. With
    /// [`UnknownInDefaults::Kept`], they may contain unknown fields.
    pub fn check_defaults(
        &self,
        unknown: UnknownInDefaults,
        path: &Path<'_>,
        read: ReadMetadata<'_>,
        errors: &mut ErrorList,
    ) {
        let check = DefaultsCheck { reader: Reader { read, drop_invalid: false }, all: self, unknown };
        let whole = Ancestors { root: self.root(), parent: None };
        check.schema(self.root(), &whole, Position { is_root: true, inside_metadata: false }, path, errors);
    }

    /// Returns true if a default contains fields that the schema lacks.
    pub fn has_unknown_in_defaults(&self) -> bool {
        any_default_with_unknown(self.root(), true)
    }

    /// Returns true if the `fieldPath` of a rule resolves to a field of this schema.
    pub fn has_field_path(&self, path: &str) -> bool {
        field_path::resolve(path, self.root()).is_some()
    }
}

/// Handling of unknown fields in defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownInDefaults {
    /// They are errors.
    Refused,
    /// They are preserved, because an earlier version of the schema was accepted with them.
    Kept,
}

fn any_default_with_unknown(schema: Schema<'_>, is_root: bool) -> bool {
    let is_whole = is_root || schema.is_embedded_resource();
    if schema.default().is_some_and(|default| has_unknown(schema, default, is_whole)) {
        return true;
    }
    let children = schema.properties().map(|(_, property)| property);
    let others = [schema.items(), schema.additional().schema()].into_iter().flatten();
    schema.has_defaults_below() && children.chain(others).any(|child| any_default_with_unknown(child, false))
}

fn has_unknown(schema: Schema<'_>, default: &Value, is_whole: bool) -> bool {
    let mut pruned = default.clone();
    Structural::prune_at(schema, &mut pruned, is_whole);
    pruned != *default
}

#[derive(Clone, Copy)]
struct Position {
    /// True at the root of the object, which is not embedded.
    is_root: bool,
    inside_metadata: bool,
}

/// The path from a complete object to a value in it.
struct Ancestors<'a> {
    /// The schema of the complete object.
    root: Schema<'a>,
    /// The last step of the path; `None` at the object itself.
    parent: Option<(&'a Ancestors<'a>, Step<'a>)>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

impl Ancestors<'_> {
    /// Returns the smallest object that contains `value` at this path.
    fn object(&self, value: Value) -> Value {
        match self.parent {
            Some((parent, Step::Field(name))) => {
                parent.object(Value::Object(Map::from_iter([(name.to_owned(), value)])))
            }
            Some((parent, Step::Item)) => parent.object(Value::Array(vec![value])),
            None => {
                let mut object = value;
                if let Value::Object(fields) = &mut object {
                    fields.entry("kind").or_insert_with(|| json!("Validation"));
                    fields.entry("apiVersion").or_insert_with(|| json!("validation/v1"));
                }
                object
            }
        }
    }
}

struct DefaultsCheck<'a> {
    reader: Reader<'a>,
    /// The whole schema.
    all: &'a Structural,
    unknown: UnknownInDefaults,
}

impl DefaultsCheck<'_> {
    fn schema(
        &self,
        schema: Schema<'_>,
        ancestors: &Ancestors<'_>,
        position: Position,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let is_whole = position.is_root || schema.is_embedded_resource();
        let own = Ancestors { root: schema, parent: None };
        let (ancestors, inside_metadata) =
            if is_whole { (&own, false) } else { (ancestors, position.inside_metadata) };
        if let Some(default) = schema.default() {
            let path = path.child("default");
            if inside_metadata {
                self.default_in_metadata(schema, default, ancestors, &path, errors);
            } else {
                self.default(schema, default, is_whole, &path, errors);
            }
        }
        if !schema.has_defaults_below() {
            return;
        }
        if let Some(items) = schema.items() {
            let ancestors = Ancestors { root: ancestors.root, parent: Some((ancestors, Step::Item)) };
            let position = Position { is_root: false, inside_metadata };
            self.schema(items, &ancestors, position, &path.child("items"), errors);
        }
        // Additional properties have no defaults.
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            let ancestors = Ancestors { root: ancestors.root, parent: Some((ancestors, Step::Field(name))) };
            let is_metadata = is_whole && crate::prune::is_object_field(name);
            let position = Position { is_root: false, inside_metadata: inside_metadata || is_metadata };
            self.schema(property, &ancestors, position, &properties.key(name), errors);
        }
    }

    fn default(
        &self,
        schema: Schema<'_>,
        default: &Value,
        is_whole: bool,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        if self.unknown == UnknownInDefaults::Refused && has_unknown(schema, default, is_whole) {
            errors.push(FieldError::invalid(path, default, "must not have unknown fields"));
        }
        let mut default = default.clone();
        let mut found = ErrorList::new();
        if let Err(error) = self.reader.coerce(&mut default, schema, is_whole, path, &mut Vec::new()) {
            return errors.push(error);
        }
        metadata::validate(&default, schema, is_whole, path, &mut found);
        if found.is_empty() {
            self.value(schema, &default, path, &mut found);
        }
        errors.extend(found);
    }

    /// Validates a default against schema and rules. It must be valid both on creation and as an
    /// unchanged value of an update.
    fn value(&self, schema: Schema<'_>, default: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        validate::validate(schema, default, None, Reading::Defaults, path, &mut found);
        // Most defaults have no rules, and compiling the rules takes longer than all other checks.
        let rules = self.all.rules_within(schema);
        for old in [Some(default), None] {
            if let Some(rules) = rules.filter(|_| found.is_empty()) {
                let mut evaluation = Evaluation::new(&mut found);
                rules.evaluate(schema, default, old, Ratchet::default(), path, &mut evaluation);
            }
        }
        errors.extend(found);
    }

    /// Validates a default within metadata, which requires the complete object.
    fn default_in_metadata(
        &self,
        schema: Schema<'_>,
        default: &Value,
        ancestors: &Ancestors<'_>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let mut object = ancestors.object(default.clone());
        let mut found = ErrorList::new();
        let problem = match self.reader.coerce(&mut object, ancestors.root, true, &Path::NIL, &mut Vec::new())
        {
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                metadata::validate(&object, ancestors.root, true, &Path::NIL, &mut found);
                (!found.is_empty()).then(|| found.to_string())
            }
        };
        match problem {
            Some(problem) => {
                let detail = format!("must result in valid metadata: {problem}");
                errors.push(FieldError::invalid(path, BadValue::from(default), detail));
            }
            None => self.value(schema, default, path, errors),
        }
    }
}
