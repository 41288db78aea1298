//! Whether the defaults of a schema are what it says itself, asked when a definition is written.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Map, Value, json};

use crate::metadata::{self, ReadMetadata, Reader};
use crate::rules::{Evaluation, Ratchet};
use crate::structural::Schema;
use crate::validate::{self, Reading};
use crate::{Structural, field_path};

impl Structural {
    /// Checks the defaults of a schema that stands at `path`, against itself. Where `unknown` says so,
    /// they may have fields that the schema does not have.
    pub fn check_defaults(
        &self,
        unknown: UnknownInDefaults,
        path: &Path<'_>,
        read: ReadMetadata<'_>,
        errors: &mut ErrorList,
    ) {
        let check = DefaultsCheck { reader: Reader { read, drop_invalid: false }, all: self, unknown };
        let whole = Surroundings { root: self.root(), parent: None };
        check.schema(self.root(), &whole, Place { is_root: true, inside_metadata: false }, path, errors);
    }

    /// Whether a default has fields that the schema does not have.
    pub fn has_unknown_in_defaults(&self) -> bool {
        any_default_with_unknown(self.root(), true)
    }

    /// Whether a path that a rule names leads to a field of the schema, which is that of the rule.
    pub fn has_field_path(&self, path: &str) -> bool {
        field_path::resolve(path, self.root()).is_some()
    }
}

/// What becomes of defaults with fields that their schema does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownInDefaults {
    /// They are faults.
    Refused,
    /// They stay, as something that was accepted once.
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
struct Place {
    /// Whether a whole object stands here that is not embedded.
    is_root: bool,
    inside_metadata: bool,
}

/// What stands around a value, up to the whole object that it belongs to.
struct Surroundings<'a> {
    /// The schema of that object.
    root: Schema<'a>,
    /// The step from there; none at the object itself.
    parent: Option<(&'a Surroundings<'a>, Step<'a>)>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

impl Surroundings<'_> {
    /// The smallest object that has the value at its place.
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
        around: &Surroundings<'_>,
        place: Place,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let is_whole = place.is_root || schema.is_embedded_resource();
        let own = Surroundings { root: schema, parent: None };
        let (around, inside_metadata) =
            if is_whole { (&own, false) } else { (around, place.inside_metadata) };
        if let Some(default) = schema.default() {
            let path = path.child("default");
            if inside_metadata {
                self.default_in_metadata(schema, default, around, &path, errors);
            } else {
                self.default(schema, default, is_whole, &path, errors);
            }
        }
        if !schema.has_defaults_below() {
            return;
        }
        if let Some(items) = schema.items() {
            let around = Surroundings { root: around.root, parent: Some((around, Step::Item)) };
            let place = Place { is_root: false, inside_metadata };
            self.schema(items, &around, place, &path.child("items"), errors);
        }
        // Additional properties have no defaults.
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            let around = Surroundings { root: around.root, parent: Some((around, Step::Field(name))) };
            let is_metadata = is_whole && crate::prune::is_object_field(name);
            let place = Place { is_root: false, inside_metadata: inside_metadata || is_metadata };
            self.schema(property, &around, place, &properties.key(name), errors);
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

    /// The value itself, by what the schema says and by its rules. It must be allowed to stay as it is,
    /// and to come into being.
    fn value(&self, schema: Schema<'_>, default: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        validate::validate(schema, default, None, Reading::Defaults, path, &mut found);
        // Most defaults have no rules, and compiling those of others takes longer than all else.
        let rules = self.all.rules_within(schema);
        for old in [Some(default), None] {
            if let Some(rules) = rules.filter(|_| found.is_empty()) {
                let mut evaluation = Evaluation::new(&mut found);
                rules.evaluate(schema, default, old, Ratchet::default(), path, &mut evaluation);
            }
        }
        errors.extend(found);
    }

    /// Metadata cannot be understood without the object it belongs to.
    fn default_in_metadata(
        &self,
        schema: Schema<'_>,
        default: &Value,
        around: &Surroundings<'_>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let mut object = around.object(default.clone());
        let mut found = ErrorList::new();
        let problem = match self.reader.coerce(&mut object, around.root, true, &Path::NIL, &mut Vec::new()) {
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                metadata::validate(&object, around.root, true, &Path::NIL, &mut found);
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
